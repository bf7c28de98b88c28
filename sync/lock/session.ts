import type { ClientBase } from 'pg';

// A COPY may take minutes, and a transaction is idle while DuckDB works, so the role's timeouts
// are off. `row_security = off` makes a statement fail if a policy would hide rows.
const settings = `
  set statement_timeout = 0;
  set idle_in_transaction_session_timeout = 0;
  set lock_timeout = '5s';
  set row_security = off;
  select set_config(name, '0', false) from pg_settings
  -- Postgres 14 and 17 introduced these.
  where name in ('idle_session_timeout', 'transaction_timeout')`;
const responseTimeoutMs = 5_000;

/**
 * Overrides the settings of the role and the database for a connection of the worker. Startup
 * options would conflict with `options` in DATABASE_URL, so the settings are statements.
 */
export async function prepareSession(connection: ClientBase): Promise<void> {
  const query = { text: settings, query_timeout: responseTimeoutMs };
  await connection.query(query);
}
