import sql, { raw, type Sql } from 'sql-template-tag';
import { microsecondsOf } from './instants.ts';
import { pageStatement } from './keyset-statement.ts';
import { type Connection, firstRow } from './pool.ts';

/** What a list is sorted by, highest first, before the id, also descending. */
export type KeysetOrder = {
  readonly column: 'created_at' | 'updated_at' | 'total_spent_in_cents';
  readonly type: 'timestamptz' | 'bigint';
};
export const byCreation: KeysetOrder = { column: 'created_at', type: 'timestamptz' };
export const byUpdate: KeysetOrder = { column: 'updated_at', type: 'timestamptz' };
export const byTotalSpent: KeysetOrder = { column: 'total_spent_in_cents', type: 'bigint' };

export type KeysetTable =
  | 'customers'
  | 'segments'
  | 'tags'
  | 'attributes'
  | 'flows'
  | 'email_campaigns'
  | 'template_campaigns';

/** A tag or a segment that customers are linked to. */
export type Link = { readonly relation: 'tag' | 'segment'; readonly id: bigint };

/** Which page of which list; `limit` rows at most. */
export type KeysetList = {
  readonly table: KeysetTable;
  /** Expressions on the table's qualified columns. */
  readonly selectList: string;
  readonly organizationId: bigint;
  readonly order: KeysetOrder;
  readonly conditions?: readonly Sql[];
  /** Only customers that carry this tag, or are in this segment, of the organization's. */
  readonly linkedTo?: Link | undefined;
  /** Only rows whose `search_text` contains this, case and accents aside. */
  readonly search?: string | undefined;
  readonly limit: number;
  /** The last row of the page before; found without the conditions. */
  readonly startingAfter?: bigint | undefined;
};

export type KeysetPage<Row> = { readonly rows: readonly Row[]; readonly hasMore: boolean };

/**
 * One page, in one statement that costs the same at any depth, and one more to
 * find the cursor. Undefined where the cursor is no row of the organization's.
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
