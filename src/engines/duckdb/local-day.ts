import sql, { raw, type Sql } from 'sql-template-tag';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import { zoneOffsets } from '../../domain/time-zone.ts';
import { offsetExpression } from '../zone-offsets.ts';
import { type Extent, stretchOf } from './labels.ts';

/** How purchases are grouped by day: the day of a row, and its date, from `key`, of a group. */
export type DayGrouping = { readonly key: Sql; readonly date: Sql };

const dayLength = 86_400_000_000n;

/** Days in UTC, or in a time zone, of purchases that the filters leave. */
export function dayGrouping(
  extent: Extent,
  filters: PurchaseFilters,
  timeZone: string | undefined,
): DayGrouping {
  if (timeZone === undefined) return { key: sql`created_at::date`, date: sql`key` };
  const { since, until } = stretchOf(extent, filters);
  // Days are counted from before all of them: division rounds towards zero.
  const base = since / dayLength - 2n;
  const sinceBase = offsetExpression(
    zoneOffsets(timeZone, since, until).map((zone) => ({
      ...zone,
      offset: zone.offset - base * dayLength,
    })),
    (instant) => sql`epoch_us(created_at) < ${raw(String(instant))}`,
  );
  // DuckDB's own time zones take thirty times as long, and dates of shifted instants are
  // hashed; whole numbers are divided quickly, and small ones are grouped by addressing.
  const type = until / dayLength - base < 2n ** 16n - 2n ? 'usmallint' : 'integer';
  return {
    key: sql`((epoch_us(created_at) + ${sinceBase}) // ${raw(String(dayLength))})::${raw(type)}`,
    date: sql`date '1970-01-01' + (key::integer + ${raw(String(base))})`,
  };
}
