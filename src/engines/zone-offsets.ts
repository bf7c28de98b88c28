import sql, { raw, type Sql } from 'sql-template-tag';
import type { ZoneOffset } from '../domain/time-zone.ts';

/**
 * The offset of `created_at` from UTC in microseconds, as SQL. A binary search over the
 * zone's transitions keeps the comparisons for each row few.
 */
export function offsetExpression(
  offsets: readonly ZoneOffset[],
  isBefore: (instant: bigint) => Sql,
): Sql {
  // Literals of computed numbers: engines fold and compare them faster than parameters.
  if (offsets.length <= 1) return raw(String(offsets[0]?.offset ?? 0n));
  const middle = Math.ceil(offsets.length / 2);
  const until = offsets[middle - 1]?.until ?? 0n;
  const [before, after] = [offsets.slice(0, middle), offsets.slice(middle)];
  return sql`case when ${isBefore(until)}
    then ${offsetExpression(before, isBefore)} else ${offsetExpression(after, isBefore)} end`;
}
