import sql, { raw, type Sql } from 'sql-template-tag';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import { zoneOffsets } from '../../domain/time-zone.ts';
import { offsetExpression } from '../zone-offsets.ts';
import type { Extent } from './labels.ts';

/** A purchase's day as an SQL date: in UTC, or in a time zone. */
export function localDay(
  { first, last }: Extent,
  { createdSince, createdUntil }: PurchaseFilters,
  timeZone: string | undefined,
): Sql {
  if (timeZone === undefined) return sql`created_at::date`;
  // The fewer changes of the zone are in between, the better.
  const from = createdSince !== undefined && createdSince > first ? createdSince : first;
  const to = createdUntil !== undefined && createdUntil < last ? createdUntil : last;
  const offset = offsetExpression(
    zoneOffsets(timeZone, from, to),
    (instant) => sql`epoch_us(created_at) < ${raw(String(instant))}`,
  );
  // DuckDB's own time zones take thirty times as long, intervals four times.
  return sql`make_timestamp(epoch_us(created_at) + ${offset})::date`;
}
