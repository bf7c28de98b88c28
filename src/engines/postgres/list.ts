import type pg from 'pg';
import sql, { empty, raw, type Sql } from 'sql-template-tag';
import { type Purchase, type PurchaseRow, purchaseFromRow } from '../../domain/purchase.ts';
import { type PurchasePage, UnknownCursorError } from '../../domain/purchase-engine.ts';
import type { PurchaseFilters, PurchaseListQuery } from '../../domain/purchase-query.ts';
import { purchaseSelectList } from '../../postgres/purchase-select-list.ts';
import { purchasesMatching } from './filters.ts';

export async function listPurchases(
  connection: pg.ClientBase,
  organizationId: bigint,
  { filters, limit, startingAfter }: PurchaseListQuery,
): Promise<PurchasePage> {
  const after =
    startingAfter === undefined
      ? empty
      : sql`and (created_at, id) < (${await creationOf(connection, organizationId, startingAfter)}::timestamptz, ${startingAfter})`;
  const purchases = await readPurchases(
    connection,
    sql`
      where ${purchasesMatching(organizationId, filters)} ${after}
      order by created_at desc, id desc
      limit ${limit + 1}`,
  );
  return { purchases: purchases.slice(0, limit), hasMore: purchases.length > limit };
}

export async function findPurchase(
  connection: pg.ClientBase,
  organizationId: bigint,
  purchaseId: bigint,
): Promise<Purchase | null> {
  const [purchase] = await readPurchases(
    connection,
    sql`where id = ${purchaseId} and organization_id = ${organizationId}`,
  );
  return purchase ?? null;
}

/** Runs a query with these clauses (where, order by, limit). */
async function readPurchases(connection: pg.ClientBase, clauses: Sql): Promise<Purchase[]> {
  const { text, values } = sql`select ${raw(purchaseSelectList)} from purchases ${clauses}`;
  const { rows } = await connection.query<bigint[]>({ text, values, rowMode: 'array' });
  return rows.map((row) => purchaseFromRow(row as PurchaseRow));
}

async function creationOf(
  connection: pg.ClientBase,
  organizationId: bigint,
  purchaseId: bigint,
): Promise<string> {
  const { rows } = await connection.query<{ created_at: string }>(sql`
    select to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as created_at
    from purchases
    where id = ${purchaseId} and organization_id = ${organizationId}`);
  if (rows[0] === undefined) throw new UnknownCursorError();
  return rows[0].created_at;
}

const exportPageSize = 2_000;

/**
 * All matching purchases as pages of the list. Each page is a short statement along an index: a
 * single streamed statement would exceed the pool's timeout if the client reads slowly.
 */
export async function* exportPurchases(
  connection: pg.ClientBase,
  organizationId: bigint,
  filters: PurchaseFilters,
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly Purchase[]> {
  let last: bigint | undefined;
  for (let hasMore = true; hasMore; ) {
    signal?.throwIfAborted();
    const page = await listPurchases(connection, organizationId, {
      filters,
      limit: exportPageSize,
      startingAfter: last,
    });
    if (page.purchases.length > 0) yield page.purchases;
    last = page.purchases.at(-1)?.id;
    hasMore = page.hasMore;
  }
}
