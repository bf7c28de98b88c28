import type { ClientBase } from 'pg';

/** Settings of Postgres by name. A setting that the server does not know is left out. */
export type SessionSettings = Readonly<Record<string, string>>;

const commonSettings: SessionSettings = {
  // Only the timeout that a caller sets ends its work: a COPY takes minutes, and a transaction is
  // idle while DuckDB or a client works.
  statement_timeout: '0',
  lock_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  idle_session_timeout: '0', // since Postgres 14
  transaction_timeout: '0', // since Postgres 17
  // Of instants, intervals, floats, bytes and money as text, as in triggers (mapping/trigger-function.ts).
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  extra_float_digits: '1',
  bytea_output: 'hex',
  lc_monetary: 'C',
  // Of SQL: backslashes in strings, quoted names, NULL in arrays.
  standard_conforming_strings: 'on',
  quote_all_identifiers: 'off',
  array_nulls: 'on',
  // Otherwise a search returns a random part of its matches.
  gin_fuzzy_search_limit: '0',
};
const responseTimeoutMs = 5_000;

/**
 * Replaces settings of the role, the database and the server on a new connection. Startup options
 * would conflict with `options` in DATABASE_URL, and poolers refuse them, so these are statements.
 * Kept are `search_path`, `default_transaction_read_only`, and settings of plans and durability.
 */
export async function prepareSession(
  connection: ClientBase,
  settings: SessionSettings = {},
): Promise<void> {
  const query = (text: string, values: unknown[] = []) =>
    connection.query({ text, values, query_timeout: responseTimeoutMs } as { text: string });
  // Without a query: a standby refuses queries of a serializable transaction.
  await query(`set statement_timeout = 0; set default_transaction_isolation = 'read committed'`);
  await query(
    `select set_config(name, value, false) from json_each_text($1) as wanted (name, value)
     where current_setting(name, true) is not null`,
    [JSON.stringify({ ...commonSettings, ...settings })],
  );
}
