import sql, { raw, type Sql } from 'sql-template-tag';
import type { ZoneOffset } from '../domain/time-zone.ts';

/**
 * What to add to `created_at` for local time: microseconds. Halves the zone's changes
 * again and again, so that few comparisons find a row's offset among many.
 */
export function offsetExpression(
  offsets: readonly ZoneOffset[],
  isBefore: (instant: bigint) => Sql,
): Sql {
  // Numbers of our own making, as literals: engines fold and compare them faster.
  if (offsets.length <= 1) return raw(String(offsets[0]?.offset ?? 0n));
  const middle = Math.ceil(offsets.length / 2);
  const until = offsets[middle - 1]?.until ?? 0n;
  const [before, after] = [offsets.slice(0, middle), offsets.slice(middle)];
  return sql`case when ${isBefore(until)}
    then ${offsetExpression(before, isBefore)} else ${offsetExpression(after, isBefore)} end`;
}
