import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { empty, join, raw, type Sql } from 'sql-template-tag';
import { type Interval, intervalLengths, periodOffsets } from '../../domain/period.ts';
import type { PurchaseStats, PurchaseTimeSeries } from '../../domain/purchase-engine.ts';
import { labelOfDimension, type PurchaseTimeSeriesQuery } from '../../domain/purchase-query.ts';
import type { ZoneOffset } from '../../domain/time-zone.ts';
import { queryRows } from '../../duckdb/connection.ts';
import {
  labelDictionary,
  labelKey,
  noLabel,
  placeholderCustomer,
} from '../../purchase-store/layout.ts';
import { dictionaryEntries, groupedPurchases } from '../../purchase-store/relations.ts';
import { assembleTimeSeries, type PeriodRange, type PeriodRow, rangeOf } from '../time-series.ts';
import { purchasesMatching } from './filters.ts';
import { type Generation, type TimeBounds, timeBounds } from './generation.ts';
import { localUnits, unitKey } from './local-time.ts';
import { purchaseStats } from './stats.ts';

/** The totals and the ranking are those of statistics. */
export async function purchaseTimeSeries(
  connection: DuckDBConnection,
  generation: Generation,
  query: PurchaseTimeSeriesQuery,
): Promise<PurchaseTimeSeries> {
  const { filters, groupBy, groupLimit, interval } = query;
  const { catalogs, summary } = generation;
  const stats = await purchaseStats(connection, generation, { filters, groupBy, groupLimit });
  const matching = (await purchasesMatching(connection, generation.labels, filters)) ?? sql`false`;
  const bounds = timeBounds(summary, filters);
  const offsets = await periodOffsets(query, bounds.since, bounds.until);
  const period = periodKey(interval, offsets, bounds);
  const readRange = async (): Promise<PeriodRange | null> => {
    const [row] = await queryRows(
      connection,
      sql`select min(period), max(period) from ${groupedPurchases(catalogs, matching, { period })}`,
    );
    const [first, last] = (row ?? [null, null]) as (number | null)[];
    return first == null || last == null ? null : { first, last };
  };
  const range = await rangeOf(query, filters, readRange);
  return assembleTimeSeries(query, stats, range, async () => {
    const series = await readSeries(connection, generation, query, stats);
    const condition = series === null ? matching : sql`${matching} and ${series.condition}`;
    const parts = { series: series?.key ?? raw('0'), period };
    const rows = await readPeriods(connection, generation, condition, parts);
    return rows.map((row) => ({ ...row, series: series?.names.get(row.series) ?? null }));
  });
}

/** The key of a purchase's period, as SQL (domain/period.ts). */
function periodKey(interval: Interval, offsets: readonly ZoneOffset[], bounds: TimeBounds): Sql {
  if (interval !== 'month') {
    const unit = intervalLengths[interval];
    return unitKey(localUnits(offsets, unit), unit, bounds);
  }
  const date = sql`(date '0001-01-01' + ${localUnits(offsets, intervalLengths.day)})`;
  return sql`((year(${date}) - 1) * 12 + month(${date}) - 1)::integer`;
}

/** The label keys of the ranking; null without a dimension. */
async function readSeries(
  connection: DuckDBConnection,
  { catalogs }: Generation,
  { groupBy }: PurchaseTimeSeriesQuery,
  { groups }: PurchaseStats,
): Promise<{ key: Sql; condition: Sql; names: ReadonlyMap<number, string> } | null> {
  if (groupBy === undefined) return null;
  const label = labelOfDimension(groupBy);
  const names = groups.flatMap(({ key }) => (key === null ? [] : [sql`${key}::varchar`]));
  const entries = dictionaryEntries(catalogs, labelDictionary(label));
  const rows =
    names.length === 0
      ? []
      : await queryRows(
          connection,
          sql`select key, value from ${entries} where value in (${join(names)})`,
        );
  const keys = rows.map(([key]) => String(key));
  if (groups.some(({ key }) => key === null)) keys.push(String(noLabel));
  const key = raw(labelKey(label));
  return {
    key,
    condition: sql`${key} in (${raw(keys.join(', '))})`,
    names: new Map(rows.map(([key, value]) => [key as number, value as string])),
  };
}

type KeyedRow = Omit<PeriodRow, 'series'> & { readonly series: number };

async function readPeriods(
  connection: DuckDBConnection,
  { catalogs }: Generation,
  condition: Sql,
  keys: { readonly series: Sql; readonly period: Sql },
): Promise<KeyedRow[]> {
  const { base, delta } = catalogs;
  const columns = sql`${keys.series} as series, ${keys.period} as period, customer_key`;
  const inBase = (more: Sql) =>
    sql`select ${columns} from ${raw(base)}.purchase where ${condition} ${more}`;
  // Customers that are counted without a matching purchase: the delta supersedes all of their
  // purchases of the period, and adds none (see `candidatesPart` of statistics).
  const superseded = sql`
    with candidates as (
      select ${columns}, count(*) as purchases
      from ${raw(delta)}.change where sign <> 0 and ${condition}
      group by all having max(sign) < 0
    ), found as (
      select series, period, customer_key, count(*) as purchases
      from (${inBase(sql`and customer_key in (select customer_key from candidates)`)})
      group by all
    )
    select series, period, count(*) as customers
    from candidates join found using (series, period, customer_key, purchases)
    group by all`;
  // The row of sign 0 lets DuckDB group dense keys by direct addressing, and is no customer.
  const customers = sql`
    select series, period, count(*) as customers
    from (
      select series, period, customer_key
      from (
        ${inBase(empty)}
        union all
        select ${columns} from ${raw(delta)}.change where (sign > 0 and ${condition}) or sign = 0
      )
      group by all
    )
    where customer_key <> ${raw(String(placeholderCustomer))}
    group by all`;
  const rows = await queryRows(
    connection,
    sql`
      select series, period, purchase_count, revenue,
        counted.customers - coalesce(superseded.customers, 0)
      from ${groupedPurchases(catalogs, condition, keys)}
      join (${customers}) as counted using (series, period)
      left join (${superseded}) as superseded using (series, period)`,
  );
  return rows.map(([series, period, purchaseCount, revenueInCents, customerCount]) => ({
    series: series as number,
    period: period as number,
    purchaseCount: purchaseCount as bigint,
    revenueInCents: revenueInCents as bigint,
    customerCount: customerCount as bigint,
  }));
}
