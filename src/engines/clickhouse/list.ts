import sql, { empty, raw, type Sql } from 'sql-template-tag';
import { type Purchase, purchaseColumns, purchaseFromRow } from '../../domain/purchase.ts';
import { type PurchasePage, UnknownCursorError } from '../../domain/purchase-engine.ts';
import type {
  PurchaseFilters,
  PurchaseListQuery,
  PurchasePlace,
} from '../../domain/purchase-query.ts';
import type { ClickHouse, ClickHouseRow } from './client.ts';
import type { LoadGeneration } from './generation.ts';
import { currentLoadPurchases, hasChanges, inBase, inChanges } from './relations.ts';
import { purchaseNames } from './schema.ts';

const newestFirst = raw('order by created_at desc, id desc');

export async function listPurchases(
  clickhouse: ClickHouse,
  generation: LoadGeneration,
  { filters, limit, startingAfter }: PurchaseListQuery,
  signal: AbortSignal | undefined,
): Promise<PurchasePage> {
  const afterCursor =
    startingAfter === undefined
      ? empty
      : isAfter(await placeOf(clickhouse, generation, startingAfter, signal));
  // A load is of one organization. ClickHouse reads in the tables' order, and no more than the page,
  // only if a condition fixes the first column of that order.
  const condition = sql`and organization_id = ${generation.organizationId} ${afterCursor}`;
  const options = { condition, limit: limit + 1 };
  const rows = await readNewest(clickhouse, generation, filters, options, signal);
  const purchases = rows.map(readPurchase);
  return { purchases: purchases.slice(0, limit), hasMore: purchases.length > limit };
}

/** Changes are read in the time of as many rows of the load, and in all of it if these are too few. */
async function readNewest(
  clickhouse: ClickHouse,
  generation: LoadGeneration,
  filters: PurchaseFilters,
  { condition, limit }: { readonly condition: Sql; readonly limit: number },
  signal: AbortSignal | undefined,
): Promise<readonly ClickHouseRow[]> {
  const clauses = sql`${newestFirst} limit ${raw(String(limit))}`;
  const read = (narrowed: Sql) => {
    const options = { condition: narrowed, clauses };
    return clickhouse.query(
      currentLoadPurchases(generation, filters, purchaseNames, options),
      signal,
    );
  };
  // One customer's purchases are few and spread over all time.
  if (hasChanges(generation) && filters.customerId === undefined) {
    const last = sql`
      select created_at ${inBase(generation, filters)} ${condition}
      ${newestFirst} limit 1 offset ${raw(String(limit - 1))}`;
    const rows = await read(sql`${condition} and created_at >= (${last})`);
    if (rows.length === limit) return rows;
  }
  return read(condition);
}

/** The primary key narrows the search by the first condition alone, not by a comparison of tuples. */
const isAfter = ({ createdAt, id }: PurchasePlace): Sql =>
  sql`and created_at <= ${createdAt} and (created_at, id) < (${createdAt}, ${id})`;

export async function findPurchase(
  clickhouse: ClickHouse,
  generation: LoadGeneration,
  purchaseId: bigint,
  signal: AbortSignal | undefined,
): Promise<Purchase | null> {
  const condition = sql`and id = ${purchaseId}`;
  const statement = currentLoadPurchases(generation, {}, purchaseNames, { condition });
  const [row] = await clickhouse.query(statement, signal);
  return row === undefined ? null : readPurchase(row);
}

/** All matching purchases, in no particular order. */
export async function* exportPurchases(
  clickhouse: ClickHouse,
  generation: LoadGeneration,
  filters: PurchaseFilters,
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly Purchase[]> {
  const statement = currentLoadPurchases(generation, filters, purchaseNames);
  for await (const rows of clickhouse.stream(statement, signal)) yield rows.map(readPurchase);
}

/** The place of a cursor, also of a purchase that was deleted after the load. */
async function placeOf(
  clickhouse: ClickHouse,
  generation: LoadGeneration,
  cursor: bigint | PurchasePlace,
  signal: AbortSignal | undefined,
): Promise<PurchasePlace> {
  if (typeof cursor !== 'bigint') return cursor;
  const id = cursor;
  const inLoad = sql`
    select created_at, null as tick, toInt8(1) as sign
    ${inBase(generation, {})} and id = ${id}`;
  const statement = hasChanges(generation)
    ? sql`
        select created_at from (
          ${inLoad}
          union all
          select created_at, tick, sign ${inChanges(generation, {})} and id = ${id}
        )
        order by tick desc nulls last, sign desc limit 1`
    : inLoad;
  const [row] = await clickhouse.query(statement, signal);
  if (row === undefined) throw new UnknownCursorError();
  return { id, createdAt: BigInt(row[0] as string) };
}

const isInteger = purchaseColumns.map(({ kind }) => !['text', 'label', 'coupons'].includes(kind));

/** A row of `purchaseNames`. */
export const readPurchase = (row: ClickHouseRow): Purchase =>
  purchaseFromRow(
    row.map((value, index) =>
      value !== null && isInteger[index] === true
        ? BigInt(value as string)
        : (value as string | null),
    ),
  );
