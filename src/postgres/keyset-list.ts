import sql, { join, raw, type Sql } from 'sql-template-tag';
import { formatInstant } from '../domain/instant.ts';
import { microsecondsOf } from './instants.ts';
import { type Database, firstRow } from './pool.ts';

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

/** Which page of which list; `limit` rows at most. */
export type KeysetList = {
  readonly table: KeysetTable;
  /** Expressions on the table's qualified columns. */
  readonly selectList: string;
  readonly organizationId: bigint;
  readonly order: KeysetOrder;
  readonly conditions?: readonly Sql[];
  /**
   * A condition that no index serves. It is looked at row by row along the order's
   * index, until the page is full: left to itself, the planner would rather read
   * and sort the whole table.
   */
  readonly unindexedCondition?: Sql | undefined;
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
  database: Database,
  list: KeysetList,
): Promise<KeysetPage<Row> | undefined> {
  const { startingAfter } = list;
  let position: bigint | undefined;
  if (startingAfter !== undefined) {
    position = await positionOf(database, list, startingAfter);
    if (position === undefined) return undefined;
  }
  const { rows } = await database.query<Row>(pageStatement(list, position));
  return { rows: rows.slice(0, list.limit), hasMore: rows.length > list.limit };
}

async function positionOf(
  database: Database,
  { table, organizationId, order }: KeysetList,
  id: bigint,
): Promise<bigint | undefined> {
  const position = order.type === 'timestamptz' ? microsecondsOf(order.column) : order.column;
  const row = await firstRow<{ position: bigint }>(
    database,
    sql`
      select ${raw(position)} as position
      from ${raw(table)}
      where id = ${id} and organization_id = ${organizationId}`,
  );
  return row?.position;
}

function pageStatement(list: KeysetList, position: bigint | undefined): Sql {
  const { selectList, organizationId, order, startingAfter } = list;
  const { conditions = [], unindexedCondition } = list;
  const table = raw(list.table);
  // Qualified: the select list gives the same name to what is read of the column.
  const key = raw(`${list.table}.${order.column}`);
  const id = raw(`${list.table}.id`);
  const after =
    position === undefined
      ? []
      : [sql`(${key}, ${id}) < (${positionValue(order, position)}, ${startingAfter})`];
  const own = sql`organization_id = ${organizationId}`;
  const matching = sql`
    from ${table}
    where ${join([own, ...conditions, ...after], ' and ')}
    order by ${key} desc, ${id} desc`;
  const most = list.limit + 1;
  // Cast: an order by a column of a domain does not carry over to an outer query.
  const keyAsPosition = sql`${key}::${raw(order.type)} as position`;

  if (unindexedCondition !== undefined) {
    // `offset 0` keeps the planner from looking at the condition earlier.
    return sql`
      select ${raw(selectList)}
      from (select *, ${keyAsPosition} ${matching} offset 0) as ${table}
      where ${unindexedCondition}
      order by position desc, ${id} desc
      limit ${most}`;
  }
  if (conditions.length > 0) {
    // Many rows may be looked at for each that is on the page: as far as possible
    // that happens within indexes, and only the page's own rows are read whole.
    return sql`
      select ${raw(selectList)}
      from (select id, ${keyAsPosition} ${matching} limit ${most}) as page
      join ${table} using (id)
      order by page.position desc, page.id desc`;
  }
  return sql`select ${raw(selectList)} ${matching} limit ${most}`;
}

function positionValue({ type }: KeysetOrder, position: bigint): Sql {
  return type === 'timestamptz'
    ? sql`${formatInstant(position)}::timestamptz`
    : sql`${position}::bigint`;
}
