import { availableParallelism } from 'node:os';
import sql, { empty, raw, type Sql } from 'sql-template-tag';
import { formatInstant } from '../../src/domain/instant.ts';
import type { Interval } from '../../src/domain/period.ts';
import { type PurchaseRow, purchaseFromRow } from '../../src/domain/purchase.ts';
import type { PurchasePeriod } from '../../src/domain/purchase-engine.ts';
import {
  labelOfDimension,
  type PurchaseFilters,
  type PurchaseStatsQuery,
  type PurchaseTimeSeriesQuery,
} from '../../src/domain/purchase-query.ts';
import { purchasesMatching } from '../../src/engines/postgres/filters.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { microsecondsOf } from '../../src/postgres/lists/instants.ts';
import { purchaseSelectList } from '../../src/postgres/lists/purchase-select-list.ts';
import type { Scope } from '../runner/scope.ts';
import { type BenchmarkDatabase, connect, queryOnce } from '../setup/postgres.ts';
import type { QueryEngine } from './purchase-queries.ts';

/**
 * The table of a user who runs these queries in Postgres: a copy of the purchases, so that the
 * fallback engine does not use these indexes. Statistics find an index with all their columns.
 */
const tableWithIndexes = `
  create schema plain;
  create table plain.purchases (like public.purchases);
  insert into plain.purchases select * from public.purchases
    order by organization_id, created_at, id;
  alter table plain.purchases add primary key (id);
  create index on plain.purchases (organization_id, created_at, id);
  create index on plain.purchases (organization_id, payment_status, created_at, id);
  create index on plain.purchases (customer_id, created_at, id);
  create index on plain.purchases (organization_id, customer_id)
    include (purchase_value_in_cents, currency);
  create index on plain.purchases (organization_id, created_at)
    include (customer_id, purchase_value_in_cents, currency);
  create index on plain.purchases (organization_id, payment_status, customer_id)
    include (purchase_value_in_cents, currency);
  create index on plain.purchases (organization_id, payment_status, utm_source)
    include (purchase_value_in_cents);
  create index on plain.purchases (organization_id, utm_campaign)
    include (purchase_value_in_cents)`;

/** All data are in memory. Compiling a statement takes longer than it saves. */
const settingsWith = (parallelWorkers: number) => ({
  search_path: 'plain,public',
  timezone: 'UTC',
  max_parallel_workers_per_gather: String(parallelWorkers),
  random_page_cost: '1.1',
  work_mem: '64MB',
  jit: 'off',
});
/** The sessions of each variant: on two cores, parallel workers doubled the time of a ranking. */
export const sessionSettings = {
  serial: settingsWith(0),
  parallel: settingsWith(availableParallelism()),
};

/** Creates the table `plain.purchases` with its indexes. */
export async function createPlainTable({ url }: BenchmarkDatabase): Promise<void> {
  console.log('Creating the table and the indexes of plain SQL.');
  // Index-only scans need the visibility map, which VACUUM does not set for rows whose commit is
  // not on disk yet. So these commits are synchronous, unlike those of the suite's pool.
  await queryOnce(url, tableWithIndexes);
  await queryOnce(url, 'vacuum analyze plain.purchases');
}

/**
 * The best plain SQL that was found for each query, without and with parallel workers. Totals and
 * the ranking or the series are two statements at the same time.
 */
export async function createPlainSqlEngines(
  scope: Scope,
  database: BenchmarkDatabase,
): Promise<Readonly<Record<keyof typeof sessionSettings, QueryEngine>>> {
  await createPlainTable(database);
  const engine = (variant: keyof typeof sessionSettings) => {
    const pool = connect(database.url, sessionSettings[variant]);
    scope.afterwards(() => pool.end());
    return createEngine(pool);
  };
  return { serial: engine('serial'), parallel: engine('parallel') };
}

function createEngine(database: Database): QueryEngine {
  const shown = { asOf: 0n, version: null };
  return {
    async list(organizationId, { filters, limit, startingAfter }) {
      const after =
        startingAfter === undefined
          ? empty
          : sql`and (created_at, id) < (select created_at, id from purchases where id = ${startingAfter})`;
      const purchases = await readPurchases(
        database,
        sql`where ${purchasesMatching(organizationId, filters)} ${after}
          order by created_at desc, id desc limit ${limit + 1}`,
      );
      const page = { purchases: purchases.slice(0, limit), hasMore: purchases.length > limit };
      return { result: page, ...shown };
    },
    async get(organizationId, purchaseId) {
      const where = sql`where id = ${purchaseId} and organization_id = ${organizationId}`;
      return { result: (await readPurchases(database, where))[0] ?? null, ...shown };
    },
    async stats(organizationId, { filters, groupBy, groupLimit }) {
      const [totals, groups] = await Promise.all([
        readTotals(database, organizationId, filters),
        groupBy === undefined
          ? []
          : readGroups(database, organizationId, { filters, groupBy, groupLimit }),
      ]);
      const ranking = {
        groups: groups.slice(0, groupLimit),
        groupsTruncated: groups.length > groupLimit,
      };
      return { result: { ...totals, ...ranking }, ...shown };
    },
    async timeSeries(organizationId, query) {
      const interval = query.interval as Interval;
      const [totals, periods] = await Promise.all([
        readTotals(database, organizationId, query.filters),
        readPeriods(database, organizationId, { ...query, interval }),
      ]);
      const series = { interval, series: [{ key: null, periods }], seriesTruncated: false };
      return { result: { ...totals, ...series }, ...shown };
    },
  };
}

async function readPurchases(database: Database, clauses: Sql) {
  const { text, values } = sql`select ${raw(purchaseSelectList)} from purchases ${clauses}`;
  const { rows } = await database.query<bigint[]>({ text, values, rowMode: 'array' });
  return rows.map((row) => purchaseFromRow(row as PurchaseRow));
}

/**
 * `count(distinct …)` over a sorted index took half the time of a parallel aggregation by customer.
 * Comparing currencies with one of them took a quarter less than their minimum and maximum.
 */
async function readTotals(database: Database, organizationId: bigint, filters: PurchaseFilters) {
  const matching = purchasesMatching(organizationId, filters);
  const currency = sql`(select currency from purchases where ${matching} and currency is not null
    order by created_at desc limit 1)`;
  const { rows } = await database.query(sql`
    select count(*) as purchases, count(distinct customer_id) as customers,
      sum(purchase_value_in_cents)::text as revenue, ${currency} as currency,
      count(*) filter (where currency <> ${currency}) > 0 as mixed_currencies
    from purchases
    where ${matching}`);
  const [totals] = rows;
  return {
    purchaseCount: totals.purchases,
    customerCount: totals.customers,
    revenueInCents: BigInt(totals.revenue ?? 0),
    currency: totals.mixed_currencies ? null : totals.currency,
    mixedCurrencies: totals.mixed_currencies,
  };
}

async function readPeriods(
  database: Database,
  organizationId: bigint,
  { filters, interval }: Pick<PurchaseTimeSeriesQuery, 'filters'> & { readonly interval: Interval },
): Promise<PurchasePeriod[]> {
  const { rows } = await database.query(sql`
    select ${raw(microsecondsOf('starts_at'))} as starts_at, purchases, customers,
      revenue::text as revenue
    from ${periodsOf(organizationId, filters, interval, sql`count(distinct customer_id)`)}
    order by 1`);
  return rows.map(({ starts_at: startsAt, purchases, customers, revenue }) => ({
    startsAt,
    purchaseCount: purchases,
    customerCount: customers,
    revenueInCents: BigInt(revenue),
  }));
}

/**
 * A range of the index for each period, also for those without purchases. For a million purchases by
 * week with distinct customers, that took a third of the time of the fastest `group by`, which is
 * one of `date_bin`, and for sums by day two thirds.
 */
function periodsOf(
  organizationId: bigint,
  filters: PurchaseFilters,
  interval: Interval,
  customers: Sql,
): Sql {
  const matching = purchasesMatching(organizationId, filters);
  const since = filters.createdSince === undefined ? null : formatInstant(filters.createdSince);
  const length = `1 ${interval}`;
  return sql`generate_series(
      date_trunc(${interval}, coalesce(
        ${since}::timestamptz, (select min(created_at) from purchases where ${matching})), 'UTC'),
      (select max(created_at) from purchases where ${matching}), ${length}::interval, 'UTC'
    ) as every (starts_at)
    cross join lateral (
      select count(*) as purchases, ${customers} as customers,
        coalesce(sum(purchase_value_in_cents), 0) as revenue
      from purchases
      where ${matching} and created_at >= starts_at and created_at < starts_at + ${length}::interval
    ) as period`;
}

async function readGroups(
  database: Database,
  organizationId: bigint,
  { filters, groupBy = 'day', groupLimit }: PurchaseStatsQuery,
) {
  const groups =
    groupBy === 'day'
      ? sql`select (starts_at at time zone 'UTC')::date as key, purchases, revenue
          from ${periodsOf(organizationId, filters, 'day', sql`null`)} where purchases > 0`
      : sql`select ${raw(labelOfDimension(groupBy))} as key, count(*) as purchases,
          sum(purchase_value_in_cents) as revenue
          from purchases where ${purchasesMatching(organizationId, filters)} group by 1`;
  const { rows } = await database.query(sql`
    select key::text collate "C" as key, purchases, revenue::text as revenue
    from (${groups}) as ranking
    order by ranking.revenue desc, purchases desc, 1 asc nulls last
    limit ${groupLimit + 1}`);
  return rows.map(({ key, purchases, revenue }) => ({
    key,
    purchaseCount: purchases,
    revenueInCents: BigInt(revenue),
  }));
}
