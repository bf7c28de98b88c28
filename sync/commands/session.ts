import type { ClientBase } from 'pg';

// A COPY of many rows may take minutes, and a transaction waits while DuckDB works: no
// timeout of the role's may end either. A lock is not waited for without end.
// With row security off a policy that hides rows makes a statement fail.
const settings = `
  set statement_timeout = 0;
  set idle_in_transaction_session_timeout = 0;
  set lock_timeout = '5s';
  set row_security = off;
  select set_config(name, '0', false) from pg_settings
  -- Postgres 14 and 17 introduced these.
  where name in ('idle_session_timeout', 'transaction_timeout')`;
const answerWithinMs = 5_000;

/**
 * Prepares a connection of the worker: what is set for its role or its database in
 * Postgres does not apply. DATABASE_URL may carry `options` of its own, so the settings
 * are not sent as startup options.
 */
export async function prepareSession(connection: ClientBase): Promise<void> {
  const query = { text: settings, query_timeout: answerWithinMs };
  await connection.query(query);
}
