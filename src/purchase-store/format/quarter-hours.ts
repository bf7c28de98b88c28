import { earliestInstant } from '../../domain/instant.ts';

/**
 * Quarters of an hour since `earliestInstant`. Days of all time zones consist of them in nearly
 * all years. DuckDB groups these small integers by direct addressing, but would divide and hash
 * instants.
 */
export const quarterHour = 900_000_000n;

/** The column with the quarter of an hour of `created_at`. */
export const creationQuarter = { name: 'created_quarter_hour', type: 'integer' } as const;

/** `instant` is in microseconds. */
export const quarterHourOf = (instant: bigint): number =>
  Number((instant - earliestInstant) / quarterHour);

/** The first instant of a quarter of an hour. */
export const beginOfQuarterHour = (quarter: number): bigint =>
  BigInt(quarter) * quarterHour + earliestInstant;

/** `quarterHourOf` as SQL, for an expression in microseconds. */
export const quarterHourSql = (microseconds: string): string =>
  `((${microseconds} - (${earliestInstant})) // ${quarterHour})::integer`;

/** Whether a quarter of an hour matches an instant, as SQL that no instant makes fail. */
export function isQuarterHourSql(quarter: string, microseconds: string): string {
  const begin = `(${quarter}::bigint * ${quarterHour} + (${earliestInstant}))`;
  return `${microseconds} between ${begin} and ${begin} + ${quarterHour - 1n}`;
}
