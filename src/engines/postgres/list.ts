import type pg from 'pg';
import sql, { empty, raw, type Sql } from 'sql-template-tag';
import { formatInstant } from '../../domain/instant.ts';
import { type Purchase, type PurchaseRow, purchaseFromRow } from '../../domain/purchase.ts';
import { type PurchasePage, UnknownCursorError } from '../../domain/purchase-engine.ts';
import type {
  PurchaseFilters,
  PurchaseListQuery,
  PurchasePlace,
} from '../../domain/purchase-query.ts';
import { microsecondsOf } from '../../postgres/lists/instants.ts';
import { purchaseSelectList } from '../../postgres/lists/purchase-select-list.ts';
import { purchasesMatching } from './filters.ts';

export async function listPurchases(
  connection: pg.ClientBase,
  organizationId: bigint,
  { filters, limit, startingAfter }: PurchaseListQuery,
): Promise<PurchasePage> {
  const after =
    startingAfter === undefined
      ? empty
      : isAfter(await placeOf(connection, organizationId, startingAfter));
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

const isAfter = ({ id, createdAt }: PurchasePlace): Sql =>
  sql`and (created_at, id) < (${formatInstant(createdAt)}::timestamptz, ${id})`;

async function placeOf(
  connection: pg.ClientBase,
  organizationId: bigint,
  cursor: bigint | PurchasePlace,
): Promise<PurchasePlace> {
  if (typeof cursor !== 'bigint') return cursor;
  const { rows } = await connection.query<PurchasePlace>(sql`
    select id, ${raw(microsecondsOf('created_at'))} as "createdAt" from purchases
    where id = ${cursor} and organization_id = ${organizationId}`);
  if (rows[0] === undefined) throw new UnknownCursorError();
  return rows[0];
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
  let last: PurchasePlace | undefined;
  for (let hasMore = true; hasMore; ) {
    signal?.throwIfAborted();
    const page = await listPurchases(connection, organizationId, {
      filters,
      limit: exportPageSize,
      startingAfter: last,
    });
    if (page.purchases.length > 0) yield page.purchases;
    const end = page.purchases.at(-1);
    last = end && { id: end.id, createdAt: end.created_at };
    hasMore = page.hasMore;
  }
}
