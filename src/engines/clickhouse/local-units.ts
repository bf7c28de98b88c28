import sql, { raw, type Sql } from 'sql-template-tag';
import { earliestInstant } from '../../domain/instant.ts';
import { intervalLengths } from '../../domain/period.ts';
import type { ZoneOffset } from '../../domain/time-zone.ts';
import { offsetExpression } from '../zone-offsets.ts';

/** The number of whole units of local time since 0001-01-01, as SQL. */
export function localUnits(
  offsets: readonly ZoneOffset[],
  unit: Exclude<keyof typeof intervalLengths, 'month'>,
): Sql {
  const shift = offsetExpression(
    offsets.length === 0
      ? [{ offset: -earliestInstant, until: null }]
      : offsets.map(({ offset, until }) => ({ offset: offset - earliestInstant, until })),
    (instant) => sql`created_at < ${raw(String(instant))}`,
  );
  return sql`intDiv(created_at + ${shift}, ${raw(String(intervalLengths[unit]))})`;
}
