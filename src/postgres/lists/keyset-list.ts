import sql, { raw } from 'sql-template-tag';
import { type Connection, firstRow } from '../connection/pool.ts';
import {
  type KeysetList,
  type KeysetOrder,
  pageStatement,
  placeOfRow,
} from './keyset-statement.ts';

export const byCreation: KeysetOrder = { column: 'created_at', type: 'timestamptz' };
export const byUpdate: KeysetOrder = { column: 'updated_at', type: 'timestamptz' };
export const byTotalSpent: KeysetOrder = { column: 'total_spent_in_cents', type: 'bigint' };

/** `end` is the last row and its place, if there is a next page; otherwise null. */
export type KeysetPage<Row> = {
  readonly rows: readonly Row[];
  readonly end: { readonly id: bigint; readonly place: bigint } | null;
};

/**
 * Reads a page with one statement, which costs the same at any depth, after one that reads the place
 * of the cursor's row, if it is not known. Undefined if that is no row of the organization.
 */
export async function readPage<Row extends { readonly id: bigint }>(
  connection: Connection,
  list: KeysetList,
): Promise<KeysetPage<Row> | undefined> {
  const { startingAfter } = list;
  let place = startingAfter?.place;
  if (startingAfter !== undefined && place === undefined) {
    place = await placeOf(connection, list, startingAfter.id);
    if (place === undefined) return undefined;
  }
  const found = await connection.query<Row & { page_place: bigint }>(pageStatement(list, place));
  const rows = found.rows.slice(0, list.limit);
  const last = found.rows.length > list.limit ? rows.at(-1) : undefined;
  return { rows, end: last === undefined ? null : { id: last.id, place: last.page_place } };
}

async function placeOf(
  connection: Connection,
  { table, organizationId, order }: KeysetList,
  id: bigint,
): Promise<bigint | undefined> {
  const row = await firstRow<{ place: bigint }>(
    connection,
    sql`
      select ${placeOfRow(order, order.column)} as place
      from ${raw(table)}
      where id = ${id} and organization_id = ${organizationId}`,
  );
  return row?.place;
}
