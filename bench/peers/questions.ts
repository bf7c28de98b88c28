import { decodeId, encodeId } from '../../src/domain/public-id.ts';
import { type PurchaseColumn, purchaseColumns } from '../../src/domain/purchase.ts';

// biome-ignore lint/suspicious/noExplicitAny: bodies of two products, whose rows are compared.
type Json = any;
type Value = string | null;

/** The same question to the service and to the peer. */
export type Question = {
  readonly query: string;
  /** Path and query of the service. */
  readonly url: string;
  /** Query of the peer, in the language of Cube. */
  readonly peerQuery: object;
  /** The rows of a response of the service. */
  rows(body: Json): Value[][];
  /** The members of the peer's rows that are compared, in the same order. */
  readonly members: readonly string[];
};

const count = 'Purchases.count';
const customers = 'Purchases.customers';
const revenue = 'Purchases.revenue';
const createdAt = 'Purchases.created_at';
const december = { since: '2025-12-01', until: '2025-12-31' };
const twoMonths = { since: '2025-11-01', until: '2025-12-31' };
type Days = typeof december;

/** Coupons are stored in another form than the service's. */
const compared = purchaseColumns.filter(({ kind }) => kind !== 'coupons');

export function questionsOf(purchaseId: bigint): Question[] {
  return [
    totals('totals', '', {}),
    totals('totals of two months', `?${boundsOf(twoMonths)}`, {
      filters: [{ member: createdAt, operator: 'inDateRange', values: rangeOf(twoMonths) }],
    }),
    ranking('by status', 'group_by=status', 'payment_status'),
    ranking('by utm_campaign', 'group_by=utm_campaign', 'utm_campaign'),
    ranking('paid by utm_source', 'group_by=utm_source&status=paid', 'utm_source', {
      filters: [{ member: 'Purchases.payment_status', operator: 'equals', values: ['paid'] }],
    }),
    series('weekly series', 'interval=week', { granularity: 'week' }),
    series('daily series of a month', `interval=day&${boundsOf(december)}`, {
      granularity: 'day',
      dateRange: rangeOf(december),
    }),
    {
      query: 'report by week by utm_campaign',
      url: '/v1/purchases/report?measures=purchase_count,revenue_in_cents&group_by=week,utm_campaign&limit=1000',
      peerQuery: {
        measures: [count, revenue],
        dimensions: ['Purchases.utm_campaign'],
        timeDimensions: [{ dimension: createdAt, granularity: 'week' }],
        order: { [createdAt]: 'asc', 'Purchases.utm_campaign': 'asc' },
        limit: 1000,
      },
      rows: ({ rows }) =>
        rows.map((row: Json) => [
          instant(row.week),
          row.utm_campaign,
          ...texts(row.purchase_count, row.revenue_in_cents),
        ]),
      members: [createdAt, 'Purchases.utm_campaign', count, revenue],
    },
    page('first page', '?limit=25', ({ data }) => data, {
      order: { [createdAt]: 'desc', 'Purchases.id': 'desc' },
      limit: 25,
    }),
    page('one purchase', `/${encodeId('purchase', purchaseId)}`, (body) => [body], {
      filters: [{ member: 'Purchases.id', operator: 'equals', values: [Number(purchaseId)] }],
    }),
  ];
}

const totals = (query: string, parameters: string, more: object): Question => ({
  query,
  url: `/v1/purchases/stats${parameters}`,
  peerQuery: { measures: [count, customers, revenue], ...more },
  rows: (body) => [texts(body.purchase_count, body.customer_count, body.revenue_in_cents)],
  members: [count, customers, revenue],
});

/** The service's response has the totals, too. */
const ranking = (
  query: string,
  parameters: string,
  dimension: string,
  more: object = {},
): Question => ({
  query,
  url: `/v1/purchases/stats?group_limit=10&${parameters}`,
  peerQuery: {
    measures: [count, revenue],
    dimensions: [`Purchases.${dimension}`],
    order: { [revenue]: 'desc' },
    limit: 10,
    ...more,
  },
  rows: ({ groups }) =>
    groups.map((group: Json) => [
      group.key,
      ...texts(group.purchase_count, group.revenue_in_cents),
    ]),
  members: [`Purchases.${dimension}`, count, revenue],
});

/** The service's response has totals, and periods without purchases. */
const series = (query: string, parameters: string, time: object): Question => ({
  query,
  url: `/v1/purchases/timeseries?${parameters}`,
  peerQuery: {
    measures: [count, customers, revenue],
    timeDimensions: [{ dimension: createdAt, fillMissingDates: false, ...time }],
    order: { [createdAt]: 'asc' },
  },
  rows: (body) =>
    body.series[0].periods
      .filter((period: Json) => period.purchase_count > 0)
      .map((period: Json) => [
        instant(period.starts_at),
        ...texts(period.purchase_count, period.customer_count, period.revenue_in_cents),
      ]),
  members: [createdAt, count, customers, revenue],
});

const page = (
  query: string,
  path: string,
  purchases: (body: Json) => Json[],
  more: object,
): Question => ({
  query,
  url: `/v1/purchases${path}`,
  peerQuery: {
    ungrouped: true,
    dimensions: purchaseColumns.map(({ name }) => `Purchases.${name}`),
    ...more,
  },
  rows: (body) =>
    purchases(body).map((purchase) =>
      compared.map((column) => ofWire(column, purchase[column.name])),
    ),
  members: compared.map(({ name }) => `Purchases.${name}`),
});

/** The rows of a response of the peer. */
export const peerRows = ({ members }: Question, body: Json): Value[][] =>
  body.results[0].data.map((row: Json) =>
    members.map((member) =>
      row[member] === null || !/_at$/.test(member) ? text(row[member]) : instant(row[member]),
    ),
  );

function ofWire({ kind }: PurchaseColumn, value: Json): Value {
  if (kind === 'purchase_id') return text(decodeId('purchase', value));
  if (kind === 'customer_id') return text(decodeId('customer', value));
  return kind === 'instant' ? instant(value) : text(value);
}

const boundsOf = ({ since, until }: Days) =>
  `created_since=${since}T00:00:00Z&created_until=${until}T23:59:59.999Z`;
const rangeOf = ({ since, until }: Days) => [since, until];
/** In milliseconds: JavaScript's dates have no microseconds. */
const instant = (value: string): string => new Date(value).toISOString();
const text = (value: unknown): Value =>
  value === null || value === undefined ? null : String(value);
const texts = (...values: unknown[]): Value[] => values.map(text);
