import type pg from 'pg';
import sql, { raw, type Sql } from 'sql-template-tag';
import { earliestInstant, formatInstant } from '../../domain/instant.ts';
import {
  type Interval,
  intervalLengths,
  intervalMonths,
  isOfMonths,
  type PeriodCalendar,
  periodKeyAt,
  periodOffsets,
} from '../../domain/period.ts';
import type { PurchaseStats, PurchaseTimeSeries } from '../../domain/purchase-engine.ts';
import {
  labelOfDimension,
  maxPeriodsOf,
  type PurchaseFilters,
  type PurchaseTimeSeriesQuery,
} from '../../domain/purchase-query.ts';
import type { ZoneOffset } from '../../domain/time-zone.ts';
import { microsecondsOf } from '../../postgres/lists/instants.ts';
import { assembleTimeSeries, type PeriodRow, rangeOf, withInterval } from '../time-series.ts';
import { offsetExpression } from '../zone-offsets.ts';
import { purchasesMatching } from './filters.ts';
import { purchaseStats, readTimeBounds } from './stats.ts';

/** Must run within one snapshot. The totals and the ranking are those of statistics. */
export async function purchaseTimeSeries(
  connection: pg.ClientBase,
  organizationId: bigint,
  wanted: PurchaseTimeSeriesQuery,
): Promise<PurchaseTimeSeries> {
  const { filters, groupBy, groupLimit } = wanted;
  const bounds = await readTimeBounds(connection, organizationId, filters);
  const rangeIn = async (calendar: PeriodCalendar) =>
    bounds && {
      first: await periodKeyAt(calendar, bounds.first),
      last: await periodKeyAt(calendar, bounds.last),
    };
  const query = await withInterval(wanted, rangeIn);
  const range = await rangeOf(query, filters, maxPeriodsOf(query), () => rangeIn(query));
  const stats = await purchaseStats(connection, organizationId, { filters, groupBy, groupLimit });
  return assembleTimeSeries(query, stats, range, async () => {
    if (bounds === null) return [];
    const offsets = await periodOffsets(query, bounds.first, bounds.last);
    return readPeriods(connection, organizationId, filters, {
      period: periodKey(query.interval, offsets),
      series: groupBy === undefined ? sql`null::text` : raw(labelOfDimension(groupBy)),
      groups: groupBy === undefined ? [{ key: null }] : stats.groups,
    });
  });
}

/** The key of a purchase's period, as SQL (domain/period.ts). */
export function periodKey(interval: Interval, offsets: readonly ZoneOffset[]): Sql {
  if (isOfMonths(interval)) {
    const offset = offsetExpression(offsets, isBefore);
    const local = sql`(created_at at time zone 'UTC' + ${offset} * interval '1 microsecond')`;
    const months = sql`((extract(year from ${local}) - 1) * 12 + extract(month from ${local}) - 1)`;
    return sql`(${months}::integer / ${raw(String(intervalMonths[interval]))})`;
  }
  return localUnits(offsets, intervalLengths[interval]);
}

/** The number of whole units (microseconds) of local time since 0001-01-01, as SQL. */
export function localUnits(offsets: readonly ZoneOffset[], unit: bigint): Sql {
  const offset = offsetExpression(offsets, isBefore);
  return sql`((${raw(microsecondsOf('created_at'))} + ${offset} - ${raw(`(${earliestInstant})`)})
    / ${raw(String(unit))})::integer`;
}

const isBefore = (instant: bigint): Sql => sql`created_at < ${formatInstant(instant)}::timestamptz`;

async function readPeriods(
  connection: pg.ClientBase,
  organizationId: bigint,
  filters: PurchaseFilters,
  {
    series,
    period,
    groups,
  }: {
    readonly series: Sql;
    readonly period: Sql;
    readonly groups: readonly Pick<PurchaseStats['groups'][number], 'key'>[];
  },
): Promise<PeriodRow[]> {
  const { rows } = await connection.query(sql`
    select series, period, count(*) as "purchaseCount",
      count(distinct customer_id) as "customerCount",
      sum(purchase_value_in_cents)::text as "revenueInCents"
    from (
      select ${series} as series, ${period} as period, customer_id, purchase_value_in_cents
      from purchases
      where ${purchasesMatching(organizationId, filters)}
    ) as matching
    join unnest(${groups.map(({ key }) => key)}::text[]) as ranked (key)
      on ranked.key is not distinct from series
    group by 1, 2`);
  return rows.map((period) => ({ ...period, revenueInCents: BigInt(period.revenueInCents) }));
}
