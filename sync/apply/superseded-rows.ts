import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import { queryRows } from '../../src/duckdb/connection.ts';
import { supersededColumns } from '../../src/purchase-store/layout.ts';
import type { StoreCatalogs } from '../../src/purchase-store/relations.ts';

/** More ids than this are not listed in the statement. */
const maxListedIds = 500;

/**
 * Selects the base's rows (`supersededColumns`) of the staged purchases that the delta does not
 * supersede yet, or returns null if there are certainly none.
 *
 * A few ids are constants: DuckDB then skips the row groups that have none of them. For a subquery
 * it reads the whole base. Sixty ids, six of them of purchases of any age, took 24 ms of processor
 * time instead of 149 at ten million rows, and 17 instead of 23 at a million.
 */
export async function stagedRowsOfBase(
  connection: DuckDBConnection,
  { base, delta }: StoreCatalogs,
): Promise<Sql | null> {
  const missing = sql`
    select id from staged
    anti join (select id from ${raw(delta)}.change where sign < 0) as superseded using (id)`;
  const rows = await queryRows(connection, sql`${missing} limit ${maxListedIds + 1}`);
  if (rows.length === 0) return null;
  const ids = rows.length > maxListedIds ? missing : join(rows.map(([id]) => id as bigint));
  return sql`select ${raw(supersededColumns)} from ${raw(base)}.purchase where id in (${ids})`;
}
