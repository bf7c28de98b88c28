/** Exact microseconds since 1970. On Postgres 13, `extract(epoch …)` returns a double. */
export function microsecondsOf(column: string): string {
  return (
    `(extract(epoch from date_trunc('second', ${column}))::bigint * 1000000` +
    ` + extract(microseconds from ${column})::bigint % 1000000)`
  );
}
