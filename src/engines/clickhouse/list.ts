import sql, { empty, raw, type Sql } from 'sql-template-tag';
import { type Purchase, purchaseColumns, purchaseFromRow } from '../../domain/purchase.ts';
import { type PurchasePage, UnknownCursorError } from '../../domain/purchase-engine.ts';
import type { PurchaseFilters, PurchaseListQuery } from '../../domain/purchase-query.ts';
import type { ClickHouse, ClickHouseRow } from './client.ts';
import { changedIds, type Generation, hasChanges, inBase, inChanges } from './relations.ts';

const columns = raw(purchaseColumns.map(({ name }) => name).join(', '));
const newestFirst = raw('order by created_at desc, id desc');

export async function listPurchases(
  clickhouse: ClickHouse,
  generation: Generation,
  { filters, limit, startingAfter }: PurchaseListQuery,
  signal: AbortSignal | undefined,
): Promise<PurchasePage> {
  const after =
    startingAfter === undefined
      ? empty
      : sql`and (created_at, id) <
          (${await creationOf(clickhouse, generation, startingAfter, signal)}, ${startingAfter})`;
  const clauses = sql`${newestFirst} limit ${raw(String(limit + 1))}`;
  const rows = await clickhouse.query(
    currentPurchases(generation, filters, after, clauses),
    signal,
  );
  const purchases = rows.map(readPurchase);
  return { purchases: purchases.slice(0, limit), hasMore: purchases.length > limit };
}

export async function findPurchase(
  clickhouse: ClickHouse,
  generation: Generation,
  purchaseId: bigint,
  signal: AbortSignal | undefined,
): Promise<Purchase | null> {
  const statement = currentPurchases(generation, {}, sql`and id = ${purchaseId}`, empty);
  const [row] = await clickhouse.query(statement, signal);
  return row === undefined ? null : readPurchase(row);
}

/** All matching purchases, in no particular order. */
export async function* exportPurchases(
  clickhouse: ClickHouse,
  generation: Generation,
  filters: PurchaseFilters,
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly Purchase[]> {
  const statement = currentPurchases(generation, filters, empty, empty);
  for await (const rows of clickhouse.stream(statement, signal)) yield rows.map(readPurchase);
}

/** Selects rows of the load that did not change, and the last row of each that did. */
function currentPurchases(
  generation: Generation,
  filters: PurchaseFilters,
  condition: Sql,
  clauses: Sql,
): Sql {
  const base = inBase(generation, filters);
  if (!hasChanges(generation)) return sql`select ${columns} ${base} ${condition} ${clauses}`;
  const matching = inChanges(generation, filters);
  return sql`
    select * from (
      select ${columns} ${base} ${condition} and id not in ${changedIds(generation)} ${clauses}
    )
    union all
    select * from (
      select ${columns} ${matching} ${condition} and sign > 0
        and (id, batch) in (select id, max(batch) ${inChanges(generation, {})} group by id)
      ${clauses}
    )
    ${clauses}`;
}

/** The creation of a cursor, also of a purchase that was deleted after the load. */
async function creationOf(
  clickhouse: ClickHouse,
  generation: Generation,
  id: bigint,
  signal: AbortSignal | undefined,
): Promise<bigint> {
  const [row] = await clickhouse.query(
    sql`
      select created_at from (
        select created_at, toInt64(0) as batch, toInt8(1) as sign
        ${inBase(generation, {})} and id = ${id}
        union all
        select created_at, batch, sign ${inChanges(generation, {})} and id = ${id}
      )
      order by batch desc, sign desc limit 1`,
    signal,
  );
  if (row === undefined) throw new UnknownCursorError();
  return BigInt(row[0] as string);
}

const isInteger = purchaseColumns.map(({ kind }) => !['text', 'label', 'coupons'].includes(kind));

const readPurchase = (row: ClickHouseRow): Purchase =>
  purchaseFromRow(
    row.map((value, index) =>
      value !== null && isInteger[index] === true ? BigInt(value) : (value as string | null),
    ),
  );
