/**
 * Microseconds since 1970 of a timestamptz column, exactly: `extract(epoch …)`
 * alone is a double on Postgres 13. `column` comes from a fixed list.
 */
export function microsecondsOf(column: string): string {
  return (
    `(extract(epoch from date_trunc('second', ${column}))::bigint * 1000000` +
    ` + extract(microseconds from ${column})::bigint % 1000000)`
  );
}
