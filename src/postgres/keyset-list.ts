import sql, { raw } from 'sql-template-tag';
import { microsecondsOf } from './instants.ts';
import { type KeysetList, type KeysetOrder, pageStatement } from './keyset-statement.ts';
import { type Connection, firstRow } from './pool.ts';

export const byCreation: KeysetOrder = { column: 'created_at', type: 'timestamptz' };
export const byUpdate: KeysetOrder = { column: 'updated_at', type: 'timestamptz' };
export const byTotalSpent: KeysetOrder = { column: 'total_spent_in_cents', type: 'bigint' };

type KeysetPage<Row> = { readonly rows: readonly Row[]; readonly hasMore: boolean };

/**
 * Reads a page with one statement, which costs the same at any depth, after one that reads the
 * cursor's row. Undefined if the cursor is no row of the organization.
 */
export async function readPage<Row extends object>(
  connection: Connection,
  list: KeysetList,
): Promise<KeysetPage<Row> | undefined> {
  const { startingAfter } = list;
  let position: bigint | undefined;
  if (startingAfter !== undefined) {
    position = await positionOf(connection, list, startingAfter);
    if (position === undefined) return undefined;
  }
  const { rows } = await connection.query<Row>(pageStatement(list, position));
  return { rows: rows.slice(0, list.limit), hasMore: rows.length > list.limit };
}

async function positionOf(
  connection: Connection,
  { table, organizationId, order }: KeysetList,
  id: bigint,
): Promise<bigint | undefined> {
  const position = order.type === 'timestamptz' ? microsecondsOf(order.column) : order.column;
  const row = await firstRow<{ position: bigint }>(
    connection,
    sql`
      select ${raw(position)} as position
      from ${raw(table)}
      where id = ${id} and organization_id = ${organizationId}`,
  );
  return row?.position;
}
