import sql, { raw } from 'sql-template-tag';
import { microsecondsOf } from './instants.ts';
import { type KeysetList, type KeysetOrder, pageStatement } from './keyset-statement.ts';
import { type Connection, firstRow } from './pool.ts';

export const byCreation: KeysetOrder = { column: 'created_at', type: 'timestamptz' };
export const byUpdate: KeysetOrder = { column: 'updated_at', type: 'timestamptz' };
export const byTotalSpent: KeysetOrder = { column: 'total_spent_in_cents', type: 'bigint' };

/** `end` is the position of the last row, for the next page; null without one. */
type KeysetPage<Row> = { readonly rows: readonly Row[]; readonly end: bigint | null };

/**
 * Reads a page with one statement, which costs the same at any depth, after one that reads the place
 * of the cursor's row, if it is not known. Undefined if that is no row of the organization.
 */
export async function readPage<Row extends object>(
  connection: Connection,
  list: KeysetList,
): Promise<KeysetPage<Row> | undefined> {
  const { startingAfter } = list;
  let position = startingAfter?.position;
  if (startingAfter !== undefined && position === undefined) {
    position = await positionOf(connection, list, startingAfter.id);
    if (position === undefined) return undefined;
  }
  const found = await connection.query<Row & { page_position: bigint }>(
    pageStatement(list, position),
  );
  const rows = found.rows.slice(0, list.limit);
  const hasMore = found.rows.length > list.limit;
  return { rows, end: hasMore ? (rows.at(-1)?.page_position ?? null) : null };
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
