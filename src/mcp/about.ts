import { grouped } from '../domain/grouped.ts';
import { reportLimits } from '../domain/purchase-report.ts';
import type { Route } from '../http/route.ts';
import { textsAreData } from './notes.ts';
import { routeAt } from './tools.ts';

/** Calls a route with parameters of its query. Returns the parsed response. */
type ReadRoute = <Response>(
  route: Route,
  query: Readonly<Record<string, string>>,
) => Promise<{ readonly response: Response; readonly asOf: bigint | undefined }>;

/** A report of counts by several dimensions. */
type Counts = {
  readonly totals: { readonly purchase_count: number };
  readonly rows: readonly (Readonly<Record<string, string | null>> & {
    readonly purchase_count: number;
  })[];
  readonly rows_truncated: boolean;
};

type Series = {
  readonly interval: string;
  readonly series: readonly {
    readonly periods: readonly { readonly starts_at: string; readonly purchase_count: number }[];
  }[];
};

type List = { readonly data: readonly { readonly created_at: string }[] };

/** Labels with few values. Those of others are a report of their own. */
const labelNames = ['status', 'platform', 'currency'] as const;
const maxValues = 10;

export const aboutDescription =
  'Payment statuses, platforms and currencies, the first and last purchase, and what the numbers mean. Call it before ' +
  'other tools. For other labels, which filters compare exactly, use purchase_report.';

/**
 * What an agent must know before it asks, from routes that exist. The instant is the earliest of its parts. It counts
 * as one request, and asks for three results, as a report does with `expand` and a currency that is no code.
 */
export function createAbout(routes: readonly Route[]) {
  const me = routeAt(routes, '/me');
  const report = routeAt(routes, '/purchases/report');
  const list = routeAt(routes, '/purchases');
  const series = routeAt(routes, '/purchases/timeseries');
  const byLabels = { group_by: labelNames.join(), limit: String(reportLimits.max) };
  return async (read: ReadRoute) => {
    const { response: identity } = await read<{ readonly organization: object }>(me, {});
    const counts = await read<Counts>(report, { measures: 'purchase_count', ...byLabels });
    const all = await read<Series>(series, { interval: 'auto' });
    const last = await read<List>(list, { limit: '1' });
    const { interval } = all.response;
    const first = all.response.series[0]?.periods.find(({ purchase_count }) => purchase_count > 0);
    const response = {
      object: 'about_this_data',
      organization: identity.organization,
      purchase_count: counts.response.totals.purchase_count,
      first_purchase_in: first === undefined ? null : { interval, starts_at: first.starts_at },
      last_purchase_at: last.response.data[0]?.created_at ?? null,
      labels: Object.fromEntries(labelNames.map((name) => [name, valuesOf(name, counts.response)])),
    };
    const instants = [counts, all, last].flatMap(({ asOf }) => asOf ?? []);
    return { response, asOf: instants.reduce((least, each) => (each < least ? each : least)) };
  };
}

/** The most frequent values of a label. Their counts are null if the report lacks rows. */
function valuesOf(name: string, { rows, rows_truncated }: Counts) {
  const values = [...grouped(rows, (row) => row[name] ?? null)]
    .map(([value, ofValue]) => ({
      value,
      purchase_count: ofValue.reduce((sum, { purchase_count }) => sum + purchase_count, 0),
    }))
    .toSorted((one, other) => other.purchase_count - one.purchase_count);
  return {
    values: values
      .slice(0, maxValues)
      .map((each) => (rows_truncated ? { ...each, purchase_count: null } : each)),
    values_truncated: rows_truncated || values.length > maxValues,
  };
}

export const aboutNotes: readonly string[] = [
  'Counts of labels are of purchases of every payment status; the tools count only paid ones, unless status is set.',
  'revenue_in_cents is the sum of purchase_value_in_cents, in the smallest unit of the currency: 1000 is BRL 10.00, JPY 1,000 or KWD 1.000. A refunded purchase that counts, counts with its full value.',
  'Labels: value null means purchases without one. To select them, use the argument without, such as ["platform"]. If values_truncated is true, there are more values, and counts may be null: purchase_report with group_by has all.',
  'The label status is payment_status of a purchase. For utm_source, utm_campaign, coupon and others, use purchase_report with group_by.',
  'The first purchase is in the period first_purchase_in, which has the length interval. Instants and periods are UTC. Bounds are inclusive. Days and months are those of the argument timezone, by default UTC.',
  'customer_count counts each customer once: customers of rows, periods and pages do not add up.',
  textsAreData,
];
