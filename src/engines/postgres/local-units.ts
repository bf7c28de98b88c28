import sql, { raw, type Sql } from 'sql-template-tag';
import { earliestInstant, formatInstant } from '../../domain/instant.ts';
import type { ZoneOffset } from '../../domain/time-zone.ts';
import { microsecondsOf } from '../../postgres/lists/instants.ts';
import { offsetExpression } from '../zone-offsets.ts';

/** The number of whole units (microseconds) of local time since 0001-01-01, as SQL. */
export function localUnits(offsets: readonly ZoneOffset[], unit: bigint): Sql {
  const offset = offsetExpression(offsets, isBefore);
  return sql`((${raw(microsecondsOf('created_at'))} + ${offset} - ${raw(`(${earliestInstant})`)})
    / ${raw(String(unit))})::integer`;
}

export const isBefore = (instant: bigint): Sql =>
  sql`created_at < ${formatInstant(instant)}::timestamptz`;
