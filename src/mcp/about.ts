import { optionalDimensions } from '../domain/purchase-query.ts';
import type { Route } from '../http/route.ts';
import { textsAreData } from './notes.ts';
import { routeAt } from './tools.ts';

/** Calls a route with parameters of its query. Returns the parsed response. */
type ReadRoute = <Response>(
  route: Route,
  query: Readonly<Record<string, string>>,
) => Promise<{ readonly response: Response; readonly asOf: bigint | undefined }>;

/** A report of counts by one dimension. */
type Counts = {
  readonly totals: { readonly purchase_count: number };
  readonly rows: readonly (Readonly<Record<string, unknown>> & {
    readonly purchase_count: number;
  })[];
  readonly rows_truncated: boolean;
};

/** A time series by one interval. */
type Series = {
  readonly series: readonly {
    readonly periods: readonly { readonly starts_at: string; readonly purchase_count: number }[];
  }[];
};

/** More of a label's values are a report of its own. */
const maxValues = 10;

export const aboutDescription =
  'Which payment statuses, currencies and other labels occur, the first and last purchase, and what the numbers ' +
  'mean. Call it before other tools: filters compare texts exactly.';

/** What an agent must know before it asks, from routes that exist. The instant is the earliest of its parts. */
export function createAbout(routes: readonly Route[]) {
  const me = routeAt(routes, '/me');
  const report = routeAt(routes, '/purchases/report');
  const list = routeAt(routes, '/purchases');
  const series = routeAt(routes, '/purchases/timeseries');
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
    const labels: Record<string, object> = {};
    let purchaseCount = 0;
    for (const name of optionalDimensions) {
      const found = await count({ group_by: name, limit: String(maxValues) });
      purchaseCount = found.totals.purchase_count;
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
      purchase_count: purchaseCount,
      first_purchase_day: await firstDay((query) => readAny<Series>(series, query)),
      last_purchase_at: last.data[0]?.created_at ?? null,
      labels,
    };
    const asOf = instants.reduce((first, each) => (each < first ? each : first));
    return { response, asOf };
  };
}

/**
 * The UTC day of the first purchase, such as 2026-01-31; null without purchases. A time series without groups has
 * enough periods for all years.
 */
async function firstDay(
  read: (query: Record<string, string>) => Promise<Series>,
): Promise<string | null> {
  const first = async (query: Record<string, string>) =>
    (await read(query)).series[0]?.periods.find(({ purchase_count }) => purchase_count > 0);
  const year = (await first({ interval: 'year' }))?.starts_at.slice(0, 4);
  if (year === undefined) return null;
  const day = await first({
    interval: 'day',
    created_since: `${year}-01-01T00:00:00Z`,
    created_until: `${year}-12-31T23:59:59.999999Z`,
  });
  return day?.starts_at.slice(0, 10) ?? null;
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
