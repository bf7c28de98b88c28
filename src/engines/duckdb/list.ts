import type { DuckDBConnection } from '@duckdb/node-api';
import { DuckDBTimestampValue } from '@duckdb/node-api';
import sql, { empty, raw, type Sql } from 'sql-template-tag';
import {
  type Purchase,
  type PurchaseColumn,
  type PurchaseRow,
  purchaseColumns,
  purchaseFromRow,
  purchaseLabels,
} from '../../domain/purchase.ts';
import { type PurchasePage, UnknownCursorError } from '../../domain/purchase-engine.ts';
import type { PurchaseListQuery } from '../../domain/purchase-query.ts';
import { queryRows } from './connection.ts';
import { purchasesMatching } from './filters.ts';
import { labelKey, labelTable } from './layout.ts';

export async function listPurchases(
  connection: DuckDBConnection,
  catalog: string,
  { filters, limit, startingAfter }: PurchaseListQuery,
): Promise<PurchasePage> {
  const after =
    startingAfter === undefined ? empty : await afterCursor(connection, catalog, startingAfter);
  const matching = await purchasesMatching(connection, catalog, filters);
  if (matching === null) return { purchases: [], hasMore: false };
  const purchases = await readPurchases(
    connection,
    catalog,
    sql`where ${matching} ${after} order by created_at desc, id desc limit ${raw(String(limit + 1))}`,
  );
  return { purchases: purchases.slice(0, limit), hasMore: purchases.length > limit };
}

export async function findPurchase(
  connection: DuckDBConnection,
  catalog: string,
  purchaseId: bigint,
): Promise<Purchase | null> {
  const [purchase] = await readPurchases(connection, catalog, sql`where id = ${purchaseId}`);
  return purchase ?? null;
}

/** What comes after a purchase in the list; the two halves let zone maps skip what is newer. */
async function afterCursor(
  connection: DuckDBConnection,
  catalog: string,
  purchaseId: bigint,
): Promise<Sql> {
  const [row] = await queryRows(
    connection,
    sql`select epoch_us(created_at) from ${raw(catalog)}.purchase where id = ${purchaseId}`,
  );
  if (row === undefined) throw new UnknownCursorError();
  const createdAt = new DuckDBTimestampValue(row[0] as bigint);
  return sql`and created_at <= ${createdAt} and (created_at < ${createdAt} or id < ${purchaseId})`;
}

/** The purchases that `selection` (where, order, limit) picks, their labels looked up. */
async function readPurchases(
  connection: DuckDBConnection,
  catalog: string,
  selection: Sql,
): Promise<Purchase[]> {
  const rows = await queryRows(
    connection,
    sql`
      select ${raw(selectList)}
      from (select * from ${raw(catalog)}.purchase ${selection}) as purchase
      ${raw(joinDictionaries(catalog))}
      order by purchase.created_at desc, purchase.id desc`,
  );
  return rows.map((row) => purchaseFromRow(row as PurchaseRow));
}

function readColumn({ name, kind }: PurchaseColumn): string {
  if (kind === 'label') return `${labelTable(name)}.value`;
  return kind === 'instant' ? `epoch_us(purchase.${name})` : `purchase.${name}`;
}

const selectList = purchaseColumns.map(readColumn).join(', ');

function joinDictionaries(catalog: string): string {
  return purchaseLabels
    .map((label) => {
      const table = labelTable(label);
      return `left join ${catalog}.${table} on ${table}.key = purchase.${labelKey(label)}`;
    })
    .join('\n');
}
