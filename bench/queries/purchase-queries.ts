import { isDeepStrictEqual } from 'node:util';
import { formatInstant } from '../../src/domain/instant.ts';
import type { Interval } from '../../src/domain/period.ts';
import { encodeId } from '../../src/domain/public-id.ts';
import type {
  PurchaseReader,
  PurchaseStats,
  PurchaseTimeSeries,
  QueuedRead,
} from '../../src/domain/purchase-engine.ts';
import {
  conditionsOf,
  type FilterConditions,
  type PurchaseFilters,
  type PurchaseStatsQuery,
  type PurchaseTimeSeriesQuery,
  type StatsDimension,
} from '../../src/domain/purchase-query.ts';
import { readPurchaseStats, readPurchaseTimeSeries } from '../../src/domain/purchase-stats.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';

/** The queries that benchmarks compare. */
export type QueryEngine = Pick<PurchaseReader, 'list' | 'get'> & {
  readonly stats: QueuedRead<PurchaseStatsQuery, PurchaseStats>;
  readonly timeSeries: QueuedRead<PurchaseTimeSeriesQuery, PurchaseTimeSeries>;
};

/** An engine of the service, or one that has the same queries. */
type AnyEngine = QueryEngine | PurchaseReader;

const statsOf = (engine: AnyEngine): QueryEngine['stats'] =>
  'stats' in engine ? engine.stats : (...query) => readPurchaseStats(engine, ...query);

const timeSeriesOf = (engine: AnyEngine): QueryEngine['timeSeries'] =>
  'stats' in engine ? engine.timeSeries : (...query) => readPurchaseTimeSeries(engine, ...query);

/** One query, for an engine and for the API. */
export type PurchaseQuery = {
  readonly name: string;
  /** Its URL without the origin. */
  readonly url: string;
  /** Runs it in an engine and returns the result. */
  run(engine: AnyEngine): Promise<unknown>;
};

/**
 * Returns values that exceed those of all purchases, each once. With such a maximum, all purchases
 * match a query, and no cache has its result.
 */
export function createUnseenMaximums(): () => bigint {
  let value = 10n ** 12n;
  return () => ++value;
}

/** `name` names the filters, such as `paid`. */
export function statsQuery(
  organizationId: bigint,
  name: string,
  filters: PurchaseFilters,
  groupBy?: StatsDimension,
): PurchaseQuery {
  const query = { filters, groupLimit: 10, ...(groupBy && { groupBy }) };
  const of = name === '' ? '' : ` of ${name}`;
  return {
    name: `statistics${of}${groupBy === undefined ? '' : ` by ${groupBy}`}`,
    url: urlOf('purchases/stats', filters, groupBy === undefined ? {} : { group_by: groupBy }),
    run: async (engine) => (await statsOf(engine)(organizationId, query)).result,
  };
}

/** `name` names the filters, such as `thirty days`. */
function timeSeriesQuery(
  organizationId: bigint,
  interval: Interval,
  name = '',
  filters: PurchaseFilters = {},
): PurchaseQuery {
  const query = { filters, interval, groupLimit: 10 };
  return {
    name: `time series${name === '' ? '' : ` of ${name}`} by ${interval}`,
    url: urlOf('purchases/timeseries', filters, { interval }),
    run: async (engine) => (await timeSeriesOf(engine)(organizationId, query)).result,
  };
}

export function listQuery(
  organizationId: bigint,
  name: string,
  filters: PurchaseFilters,
  page: { readonly limit?: number; readonly startingAfter?: bigint } = {},
): PurchaseQuery {
  const { limit = 25, startingAfter } = page;
  const after = startingAfter && { starting_after: encodeId('purchase', startingAfter) };
  return {
    name,
    url: urlOf('purchases', filters, { limit: String(limit), ...after }),
    run: async (engine) => (await engine.list(organizationId, { filters, limit, ...page })).result,
  };
}

const singleQuery = (organizationId: bigint, id: bigint): PurchaseQuery => ({
  name: 'one purchase',
  url: `/v1/purchases/${encodeId('purchase', id)}`,
  run: async (engine) => (await engine.get(organizationId, id)).result,
});

/** The queries of dashboards and scripts. */
export async function commonQueries(
  organizationId: bigint,
  database: Database,
): Promise<PurchaseQuery[]> {
  const deep = await deepPurchase(organizationId, database);
  const createdSince = BigInt(Date.UTC(2025, 10, 1)) * 1000n;
  const thirtyDays = BigInt(Date.UTC(2025, 11, 2, 0, 0, 0, 1)) * 1000n;
  return [
    statsQuery(organizationId, '', {}),
    statsQuery(organizationId, '', {}, 'status'),
    statsQuery(organizationId, '', {}, 'day'),
    statsQuery(organizationId, '', {}, 'utm_campaign'),
    statsQuery(organizationId, 'paid', { paymentStatuses: ['paid'] }, 'utm_source'),
    statsQuery(organizationId, 'two months', { createdSince }, 'day'),
    timeSeriesQuery(organizationId, 'week'),
    // Dashboards send bounds to the millisecond.
    timeSeriesQuery(organizationId, 'day', 'thirty days', { createdSince: thirtyDays }),
    listQuery(organizationId, 'first page', {}),
    listQuery(organizationId, 'deep page', {}, { startingAfter: deep.id }),
    listQuery(organizationId, 'first page of paid', { paymentStatuses: ['paid'] }),
    listQuery(organizationId, "one customer's purchases", { customerId: deep.customer_id }),
    singleQuery(organizationId, deep.id),
  ];
}

/** A purchase than which a third of the organization's purchases is older. */
async function deepPurchase(
  organizationId: bigint,
  database: Database,
): Promise<{ readonly id: bigint; readonly customer_id: bigint }> {
  const { rows } = await database.query<{ id: bigint; customer_id: bigint }>(
    `select id, customer_id from purchases where organization_id = $1 order by created_at
     offset (select count(*) / 3 from purchases where organization_id = $1) limit 1`,
    [organizationId],
  );
  return rows[0] as { id: bigint; customer_id: bigint };
}

/** Fails unless the engines return equal results: the time of a wrong result is worthless. */
export async function requireEqualResults(
  signal: AbortSignal,
  queries: readonly PurchaseQuery[],
  [first, ...others]: readonly [AnyEngine, ...AnyEngine[]],
): Promise<void> {
  for (const { name, run } of queries) {
    signal.throwIfAborted();
    const result = await run(first);
    for (const other of others) {
      if (!isDeepStrictEqual(await run(other), result)) {
        throw new Error(`the engines differ on: ${name}`);
      }
    }
  }
}

/** Names and values in a URL. A text filter has its name once for each text. */
const parameters: FilterConditions<readonly [string, string | readonly string[]]> = {
  customerId: (id) => ['customer_id', encodeId('customer', id)],
  paymentStatuses: (statuses) => ['status', statuses.join()],
  platforms: (platforms) => ['platform', platforms.join()],
  createdSince: (instant) => ['created_since', formatInstant(instant)],
  createdUntil: (instant) => ['created_until', formatInstant(instant)],
  minValueInCents: (cents) => ['min_value_in_cents', String(cents)],
  maxValueInCents: (cents) => ['max_value_in_cents', String(cents)],
  currency: (values) => ['currency', values],
  without: (dimensions) => ['without', dimensions.join()],
  coupon: (codes) => ['coupon', codes],
  not: (excluded) => [
    'not',
    Object.entries(excluded).flatMap(([name, values]) => values.map((value) => `${name}:${value}`)),
  ],
  localTimes: ({ weekdays = [] }) => ['weekday', weekdays.join()],
  utm_source: (values) => ['utm_source', values],
  utm_medium: (values) => ['utm_medium', values],
  utm_campaign: (values) => ['utm_campaign', values],
  utm_content: (values) => ['utm_content', values],
  utm_term: (values) => ['utm_term', values],
};

function urlOf(path: string, filters: PurchaseFilters, more: Record<string, string>): string {
  const given = [...conditionsOf(filters, parameters), ...Object.entries(more)];
  const pairs = given.flatMap(([name, values]) =>
    [values].flat().map((value): [string, string] => [name, value]),
  );
  return `/v1/${path}?${new URLSearchParams(pairs)}`;
}
