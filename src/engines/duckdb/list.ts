import type { DuckDBConnection } from '@duckdb/node-api';
import { DuckDBTimestampValue } from '@duckdb/node-api';
import sql, { empty, raw, type Sql } from 'sql-template-tag';
import {
  type Purchase,
  type PurchaseLabel,
  type PurchaseRow,
  purchaseColumns,
  purchaseFromRow,
} from '../../domain/purchase.ts';
import { type PurchasePage, UnknownCursorError } from '../../domain/purchase-engine.ts';
import type { PurchaseListQuery } from '../../domain/purchase-query.ts';
import { type DuckDBRow, queryRows } from './connection.ts';
import { purchasesMatching } from './filters.ts';
import type { Generation, LabelKeys } from './labels.ts';
import { labelKey } from './layout.ts';

export async function listPurchases(
  connection: DuckDBConnection,
  generation: Generation,
  { filters, limit, startingAfter }: PurchaseListQuery,
): Promise<PurchasePage> {
  const after =
    startingAfter === undefined ? empty : await afterCursor(connection, generation, startingAfter);
  const matching = await purchasesMatching(connection, generation.catalog, filters);
  if (matching === null) return { purchases: [], hasMore: false };
  const purchases = await readPurchases(
    connection,
    generation,
    sql`where ${matching} ${after} order by created_at desc, id desc limit ${raw(String(limit + 1))}`,
  );
  return { purchases: purchases.slice(0, limit), hasMore: purchases.length > limit };
}

export async function findPurchase(
  connection: DuckDBConnection,
  generation: Generation,
  purchaseId: bigint,
): Promise<Purchase | null> {
  const [purchase] = await readPurchases(connection, generation, sql`where id = ${purchaseId}`);
  return purchase ?? null;
}

/** What comes after a purchase in the list; the two halves let zone maps skip what is newer. */
async function afterCursor(
  connection: DuckDBConnection,
  { catalog }: Generation,
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
  { catalog, labels }: Generation,
  selection: Sql,
): Promise<Purchase[]> {
  const rows = await queryRows(
    connection,
    sql`select ${raw(selectList)} from ${raw(catalog)}.purchase ${selection}`,
  );
  const labelOf = await labels.lookUp(connection, labelKeysIn(rows));
  return rows.map((row) =>
    purchaseFromRow(
      row.map((value, index) => {
        const column = purchaseColumns[index];
        return column?.kind === 'label' && value !== null
          ? labelOf(column.name, Number(value))
          : value;
      }) as PurchaseRow,
    ),
  );
}

const selectList = purchaseColumns
  .map(({ name, kind }) => {
    if (kind === 'label') return labelKey(name);
    return kind === 'instant' ? `epoch_us(${name})` : name;
  })
  .join(', ');

function labelKeysIn(rows: readonly DuckDBRow[]): LabelKeys {
  const keys = new Map<PurchaseLabel, Set<number>>();
  purchaseColumns.forEach(({ name, kind }, index) => {
    if (kind !== 'label') return;
    const present = rows.map((row) => row[index]).filter((key) => key !== null);
    keys.set(name, new Set(present.map(Number)));
  });
  return keys;
}
