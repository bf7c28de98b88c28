import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import {
  type Purchase,
  type PurchaseLabel,
  type PurchaseRow,
  purchaseColumns,
  purchaseFromRow,
} from '../../../domain/purchase.ts';
import { type PurchasePage, UnknownCursorError } from '../../../domain/purchase-engine.ts';
import type {
  PurchaseFilters,
  PurchaseListQuery,
  PurchasePlace,
} from '../../../domain/purchase-query.ts';
import { type DuckDBRow, queryRows, streamChunks } from '../../../duckdb/connection.ts';
import type { Shortcuts } from '../../../duckdb/shortcuts.ts';
import { emptyBase } from '../../../purchase-store/delta/delta.ts';
import { noLabel } from '../../../purchase-store/format/layout.ts';
import { currentPurchases } from '../../../purchase-store/format/relations.ts';
import { rowsMatching } from '../filters.ts';
import type { Generation } from '../serving/generation.ts';
import type { LabelCache, LabelKeys } from '../serving/label-cache.ts';
import type { CachedLists } from './list-cache.ts';
import { readPageRows, selectList } from './page.ts';

export async function listPurchases(
  connection: DuckDBConnection,
  generation: Generation,
  query: PurchaseListQuery,
  shortcuts: Shortcuts,
  cached?: Pick<CachedLists, 'read'>,
): Promise<PurchasePage> {
  const { filters, limit, startingAfter } = query;
  const cursor =
    startingAfter === undefined ? null : await findCursor(connection, generation, startingAfter);
  const conditions = await rowsMatching(connection, generation.labels, filters);
  if (conditions === null) return { purchases: [], hasMore: false };
  const read = async (size: number): Promise<PurchasePage> => {
    const page = { filters, conditions, cursor, limit: size + 1 };
    const rows = await readPageRows(connection, generation, page, shortcuts);
    const purchases = await withLabels(connection, generation.labels, rows.slice(0, size));
    return { purchases, hasMore: rows.length > size };
  };
  return cached === undefined
    ? read(limit)
    : cached.read({ ...query, cursor, last: generation.summary.last }, read);
}

/**
 * Two statements, because planning their union takes longer. Most purchases are not in the delta. The caller
 * ensures that both statements see the same version.
 */
export async function findPurchase(
  connection: DuckDBConnection,
  { catalogs: { base, delta }, labels, isUnchanged }: Generation,
  purchaseId: bigint,
): Promise<Purchase | null> {
  const changes = isUnchanged
    ? []
    : await queryRows(
        connection,
        sql`
          select ${raw(selectList)}, sign from ${raw(delta)}.change
          where sign <> 0 and id = ${purchaseId}`,
      );
  const current =
    changes.length > 0 || base === emptyBase
      ? changes.filter((row) => row.at(-1) === 1)
      : await queryRows(
          connection,
          sql`select ${raw(selectList)} from ${raw(base)}.purchase where id = ${purchaseId}`,
        );
  const [purchase] = await withLabels(connection, labels, current);
  return purchase ?? null;
}

/** A deleted purchase keeps its place until the next compaction of the files. */
async function findCursor(
  connection: DuckDBConnection,
  { catalogs: { base, delta } }: Generation,
  startingAfter: bigint | PurchasePlace,
): Promise<PurchasePlace> {
  if (typeof startingAfter !== 'bigint') return startingAfter;
  const [row] = await queryRows(
    connection,
    sql`
      select epoch_us(created_at) from ${raw(delta)}.change where id = ${startingAfter} and sign > 0
      union all
      select max(epoch_us(created_at)) from ${raw(base)}.purchase
      where id = ${startingAfter} having count(*) > 0`,
  );
  if (row === undefined) throw new UnknownCursorError();
  return { id: startingAfter, createdAt: row[0] as bigint };
}

/**
 * All matching purchases in batches, in no particular order. The labels need a second connection,
 * because another statement would end the stream of the first.
 */
export async function* streamPurchases(
  connection: DuckDBConnection,
  second: DuckDBConnection,
  { catalogs, labels }: Generation,
  filters: PurchaseFilters,
): AsyncGenerator<readonly Purchase[]> {
  const rows = await rowsMatching(connection, labels, filters);
  if (rows === null) return;
  const purchases = currentPurchases(catalogs, rows.matching, rows.ofSuperseded);
  const statement = sql`select ${raw(selectList)} from ${purchases}`;
  for await (const chunk of streamChunks(connection, statement)) {
    yield await withLabels(second, labels, chunk.getRows() as DuckDBRow[]);
  }
}

async function withLabels(
  connection: DuckDBConnection,
  labels: LabelCache,
  rows: readonly DuckDBRow[],
): Promise<Purchase[]> {
  const labelOf = await labels.lookUp(connection, labelKeysIn(rows));
  return rows.map((row) =>
    purchaseFromRow(
      row.map((value, index) => {
        const column = purchaseColumns[index];
        if (column?.kind !== 'label') return value;
        return value === noLabel ? null : labelOf(column.name, Number(value));
      }) as PurchaseRow,
    ),
  );
}

function labelKeysIn(rows: readonly DuckDBRow[]): LabelKeys {
  const keys = new Map<PurchaseLabel, Set<number>>();
  purchaseColumns.forEach(({ name, kind }, index) => {
    if (kind !== 'label') return;
    const present = rows.map((row) => row[index]).filter((key) => key !== noLabel);
    keys.set(name, new Set(present.map(Number)));
  });
  return keys;
}
