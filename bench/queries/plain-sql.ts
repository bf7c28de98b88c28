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
    include (purchase_value_in_cents);
  create statistics plain.days on ((created_at at time zone 'UTC')::date) from plain.purchases`;

/** All data are in memory. Compiling a statement takes longer than it saves. */
const sessionSettings = {
  search_path: 'plain,public',
  max_parallel_workers_per_gather: String(availableParallelism()),
  random_page_cost: '1.1',
  work_mem: '64MB',
  jit: 'off',
};

/**
 * The best plain SQL that was found for each query: one statement for totals, one for the ranking,
 * one for a page. `count(distinct …)` over a sorted index took half the time of a parallel
 * aggregation by customer.
 */
export async function createPlainSqlEngine(
  scope: Scope,
  { url }: BenchmarkDatabase,
): Promise<QueryEngine> {
  console.log('Creating the table and the indexes of plain SQL.');
  // Index-only scans need the visibility map, which VACUUM does not set for rows whose commit is
  // not on disk yet. So these commits are synchronous, unlike those of the suite's pool.
  await queryOnce(url, tableWithIndexes);
  await queryOnce(url, 'vacuum analyze plain.purchases');
  const database = connect(url, sessionSettings);
  scope.afterwards(() => database.end());
  const asOf = 0n;
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
      return { result: page, asOf };
    },
    async get(organizationId, purchaseId) {
      const where = sql`where id = ${purchaseId} and organization_id = ${organizationId}`;
      return { result: (await readPurchases(database, where))[0] ?? null, asOf };
    },
    async stats(organizationId, { filters, groupBy, groupLimit }) {
      const totals = await readTotals(database, organizationId, filters);
      const groups =
        groupBy === undefined
          ? []
          : await readGroups(database, organizationId, { filters, groupBy, groupLimit });
      const ranking = {
        groups: groups.slice(0, groupLimit),
        groupsTruncated: groups.length > groupLimit,
      };
      return { result: { ...totals, ...ranking }, asOf };
    },
    async timeSeries(organizationId, query) {
      const totals = await readTotals(database, organizationId, query.filters);
      const periods = await readPeriods(database, organizationId, query);
      const interval = query.interval as Interval;
      const series = { interval, series: [{ key: null, periods }], seriesTruncated: false };
      return { result: { ...totals, ...series }, asOf };
    },
  };
}

async function readPurchases(database: Database, clauses: Sql) {
  const { text, values } = sql`select ${raw(purchaseSelectList)} from purchases ${clauses}`;
  const { rows } = await database.query<bigint[]>({ text, values, rowMode: 'array' });
  return rows.map((row) => purchaseFromRow(row as PurchaseRow));
}

async function readTotals(database: Database, organizationId: bigint, filters: PurchaseFilters) {
  const { rows } = await database.query(sql`
    select count(*) as purchases, count(distinct customer_id) as customers,
      sum(purchase_value_in_cents)::text as revenue,
      min(currency collate "C") as first_currency, max(currency collate "C") as last_currency
    from purchases
    where ${purchasesMatching(organizationId, filters)}`);
  const [{ purchases, customers, revenue, first_currency, last_currency }] = rows;
  return {
    purchaseCount: purchases,
    customerCount: customers,
    revenueInCents: BigInt(revenue ?? 0),
    currency: first_currency === last_currency ? first_currency : null,
    mixedCurrencies: first_currency !== last_currency,
  };
}

async function readPeriods(
  database: Database,
  organizationId: bigint,
  { filters, interval }: PurchaseTimeSeriesQuery,
): Promise<PurchasePeriod[]> {
  const since = filters.createdSince === undefined ? null : formatInstant(filters.createdSince);
  const { rows } = await database.query(sql`
    with periods as (
      select date_trunc(${interval}, created_at, 'UTC') as starts_at, count(*) as purchases,
        count(distinct customer_id) as customers, sum(purchase_value_in_cents) as revenue
      from purchases
      where ${purchasesMatching(organizationId, filters)}
      group by 1
    )
    select ${raw(microsecondsOf('starts_at'))} as starts_at, coalesce(purchases, 0) as purchases,
      coalesce(customers, 0) as customers, coalesce(revenue, 0)::text as revenue
    from generate_series(
      coalesce(date_trunc(${interval}, ${since}::timestamptz, 'UTC'), (select min(starts_at) from periods)), (select max(starts_at) from periods),
      ${`1 ${interval}`}::interval, 'UTC') as every (starts_at)
    left join periods using (starts_at)
    order by 1`);
  return rows.map(({ starts_at: startsAt, purchases, customers, revenue }) => ({
    startsAt,
    purchaseCount: purchases,
    customerCount: customers,
    revenueInCents: BigInt(revenue),
  }));
}

async function readGroups(
  database: Database,
  organizationId: bigint,
  { filters, groupBy = 'day', groupLimit }: PurchaseStatsQuery,
) {
  const key =
    groupBy === 'day' ? `(created_at at time zone 'UTC')::date` : labelOfDimension(groupBy);
  const { rows } = await database.query(sql`
    select key::text collate "C" as key, purchases, revenue::text as revenue
    from (
      select ${raw(key)} as key, count(*) as purchases, sum(purchase_value_in_cents) as revenue
      from purchases
      where ${purchasesMatching(organizationId, filters)}
      group by 1
    ) as ranking
    order by ranking.revenue desc, purchases desc, 1 asc nulls last
    limit ${groupLimit + 1}`);
  return rows.map(({ key, purchases, revenue }) => ({
    key,
    purchaseCount: purchases,
    revenueInCents: BigInt(revenue),
  }));
}
