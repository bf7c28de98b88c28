import { parseInstant } from '../domain/instant.ts';
import { labelDimensions } from '../domain/purchase-query.ts';
import type { Route } from '../http/route.ts';
import { textsAreData } from './notes/notes.ts';
import { routeAt } from './tools.ts';

/** Calls a route with parameters of its query. Returns the parsed response. */
export type ReadRoute = <Response>(
  route: Route,
  query: Readonly<Record<string, string>>,
) => Promise<{ readonly response: Response; readonly asOf: bigint | undefined }>;

/** A report of counts by one dimension, or by none. */
type Counts = {
  readonly totals: { readonly purchase_count: number };
  readonly rows: readonly (Readonly<Record<string, unknown>> & {
    readonly purchase_count: number;
  })[];
  readonly rows_truncated: boolean;
};

/** More of a label's values are a report of its own. */
const maxValues = 10;

export const aboutDescription =
  'The organization, the payment statuses, currencies and other labels that occur, the first and last purchase, ' +
  'and what the numbers mean. Call it before other tools: filters compare texts exactly.';

/** What an agent must know before it asks, from routes that exist. The instant is the earliest of its parts. */
export function createAbout(routes: readonly Route[]) {
  const me = routeAt(routes, '/me');
  const report = routeAt(routes, '/purchases/report');
  const list = routeAt(routes, '/purchases');
  return async (read: ReadRoute) => {
    const instants: bigint[] = [];
    const readAny = async <Response>(route: Route, query: Record<string, string>) => {
      const { response, asOf } = await read<Response>(route, query);
      if (asOf !== undefined) instants.push(asOf);
      return response;
    };
    const count = (query: Record<string, string>) =>
      readAny<Counts>(report, { measures: 'purchase_count', ...query });
    const { organization } = await readAny<{ readonly organization: object }>(me, {});
    const { totals } = await count({});
    const labels: Record<string, object> = {};
    for (const name of labelDimensions) {
      const found = await count({ group_by: name, limit: String(maxValues) });
      labels[name] = {
        values: found.rows.map((row) => ({
          value: row[name],
          purchase_count: row.purchase_count,
        })),
        values_truncated: found.rows_truncated,
      };
    }
    const last = await readAny<{ readonly data: readonly { readonly created_at: string }[] }>(
      list,
      { limit: '1' },
    );
    const response = {
      object: 'about_this_data',
      organization,
      purchase_count: totals.purchase_count,
      first_purchase_day: await firstDay(count),
      last_purchase_at: last.data[0]?.created_at ?? null,
      labels,
    };
    const asOf = instants.reduce((first, each) => (each < first ? each : first));
    return { response, asOf };
  };
}

/** The UTC day of the first purchase, such as 2026-01-31; null without purchases. */
async function firstDay(
  count: (query: Record<string, string>) => Promise<Counts>,
): Promise<string | null> {
  const months = await count({ group_by: 'month', order_by: 'month', limit: '1' });
  const month = months.rows[0]?.month;
  if (typeof month !== 'string') return null;
  const days = await count({
    group_by: 'day',
    order_by: 'day',
    limit: '31',
    created_since: month,
    created_until: endOfMonth(month),
  });
  const first = days.rows.find((row) => row.purchase_count > 0);
  return first === undefined ? null : String(first.day).slice(0, 10);
}

function endOfMonth(month: string): string {
  const start = new Date(Number((parseInstant(month, 'up') as bigint) / 1000n));
  start.setUTCMonth(start.getUTCMonth() + 1);
  return `${new Date(start.getTime() - 1).toISOString().slice(0, -1)}999Z`;
}

export const aboutNotes: readonly string[] = [
  'Counts of labels are of purchases of every payment status; the tools count only paid ones, unless status is set.',
  'revenue_in_cents is the sum of purchase_value_in_cents, in the smallest unit of the currency: 1000 is BRL 10.00, JPY 1,000 or KWD 1.000. A refunded purchase that counts, counts with its full value.',
  'Labels: value null means purchases without one. To select them, use the argument without, such as ["utm_campaign"]. If values_truncated is true, there are more values: purchase_report with group_by has them.',
  'The label status is payment_status of a purchase. Platform and currency may be missing too.',
  'Instants and first_purchase_day are UTC. Bounds are inclusive. Days and months are those of the argument timezone, by default UTC.',
  'customer_count counts each customer once: customers of rows, periods and pages do not add up.',
  textsAreData,
];
