import { earliestInstant } from '../domain/instant.ts';

/**
 * Quarters of an hour, counted from `earliestInstant`. Of them are the days of all time
 * zones made, in these years; and DuckDB groups small integers whose range it knows by
 * addressing, where instants would have to be divided and hashed.
 */
export const quarterHour = 900_000_000n;
export const quarterHoursADay = 96;

/** The column of a file's purchases that says in which one a purchase was created. */
export const creationQuarter = { name: 'created_quarter_hour', type: 'integer' } as const;

/** Of an instant in microseconds. */
export const quarterHourOf = (instant: bigint): number =>
  Number((instant - earliestInstant) / quarterHour);

/** The same as SQL, for an expression in microseconds. */
export const quarterHourSql = (microseconds: string): string =>
  `((${microseconds} - (${earliestInstant})) // ${quarterHour})::integer`;

/**
 * Whether a purchase's quarter of an hour is that of its instant, as SQL; no instant, not
 * even one beyond all calendars, makes it fail.
 */
export function isQuarterHourSql(quarter: string, microseconds: string): string {
  const begin = `(${quarter}::bigint * ${quarterHour} + (${earliestInstant}))`;
  return `${microseconds} between ${begin} and ${begin} + ${quarterHour - 1n}`;
}
