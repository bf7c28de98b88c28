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
import type { PurchaseFilters, PurchaseListQuery } from '../../domain/purchase-query.ts';
import { type DuckDBRow, queryRows, streamChunks } from '../../duckdb/connection.ts';
import { labelKey, noLabel } from '../../purchase-store/layout.ts';
import { purchasesMatching } from './filters.ts';
import { type Generation, type GenerationSummary, timeBounds } from './generation.ts';
import type { LabelCache, LabelKeys } from './labels.ts';

export async function listPurchases(
  connection: DuckDBConnection,
  generation: Generation,
  { filters, limit, startingAfter }: PurchaseListQuery,
): Promise<PurchasePage> {
  const cursor =
    startingAfter === undefined ? null : await findCursor(connection, generation, startingAfter);
  const matching = await purchasesMatching(connection, generation.catalog, filters);
  if (matching === null) return { purchases: [], hasMore: false };
  const listed = cursor === null ? matching : sql`${matching} and ${isAfter(cursor)}`;
  const { since, until } = timeBounds(generation.summary, filters);
  const purchases = await readPage(connection, generation, {
    listed,
    limit: limit + 1,
    since,
    until: cursor !== null && cursor.createdAt < until ? cursor.createdAt : until,
    // One customer's purchases are few and spread over all time, so the window is no use.
    isScattered: filters.customerId !== undefined,
  });
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

type Cursor = { readonly id: bigint; readonly createdAt: bigint };

async function findCursor(
  connection: DuckDBConnection,
  { catalog }: Generation,
  id: bigint,
): Promise<Cursor> {
  const [row] = await queryRows(
    connection,
    sql`select epoch_us(created_at) from ${raw(catalog)}.purchase where id = ${id}`,
  );
  if (row === undefined) throw new UnknownCursorError();
  return { id, createdAt: row[0] as bigint };
}

/** Two conditions on `created_at`, because zone maps skip newer row groups for the first one. */
function isAfter({ id, createdAt }: Cursor): Sql {
  const instant = new DuckDBTimestampValue(createdAt);
  return sql`created_at <= ${instant} and (created_at < ${instant} or id < ${id})`;
}

type PageQuery = {
  /** The condition of the purchases after the cursor. */
  readonly listed: Sql;
  readonly limit: number;
  /** The time bounds of these purchases; microseconds since 1970. */
  readonly since: bigint;
  readonly until: bigint;
  /** Whether the purchases are few and spread over all time. */
  readonly isScattered: boolean;
};

/**
 * Reads a page from a narrow time window. If the page is not full, reads from all rows: DuckDB
 * begins with the newest row groups, and skips row groups that zone maps show to be older than
 * the rows found so far.
 */
async function readPage(
  connection: DuckDBConnection,
  generation: Generation,
  { listed, limit, since, until, isScattered }: PageQuery,
): Promise<Purchase[]> {
  const readWithin = (window: Sql) =>
    readPurchases(
      connection,
      generation,
      sql`where ${listed} ${window} order by created_at desc, id desc limit ${raw(String(limit))}`,
    );
  const begin = narrowWindow(until, generation.summary, limit);
  if (!isScattered && begin > since) {
    const purchases = await readWithin(isSince(begin));
    if (purchases.length === limit) return purchases;
  }
  return readWithin(empty);
}

/** Pages that a time window should hold. */
const pagesPerWindow = 8;

/**
 * The beginning of a time window that ends at `until`. The width assumes that purchases are
 * distributed evenly: a wrong guess costs a second query, and never loses a purchase. Instants
 * are microseconds since 1970.
 */
export function narrowWindow(
  until: bigint,
  { purchases, first, last }: Omit<GenerationSummary, 'currency'>,
  pageSize: number,
): bigint {
  const microsecondsPerPurchase = Number(last - first) / Math.max(1, purchases);
  return until - BigInt(Math.ceil(pagesPerWindow * pageSize * microsecondsPerPurchase)) - 1n;
}

const isSince = (instant: bigint): Sql =>
  sql`and created_at >= ${new DuckDBTimestampValue(instant)}`;

/**
 * All matching purchases in batches, in no particular order. The labels need a second connection,
 * because another statement would end the stream of the first.
 */
export async function* streamPurchases(
  connection: DuckDBConnection,
  second: DuckDBConnection,
  { catalog, labels }: Generation,
  filters: PurchaseFilters,
): AsyncGenerator<readonly Purchase[]> {
  const matching = await purchasesMatching(connection, catalog, filters);
  if (matching === null) return;
  const statement = sql`select ${raw(selectList)} from ${raw(catalog)}.purchase where ${matching}`;
  for await (const chunk of streamChunks(connection, statement)) {
    yield await withLabels(second, labels, chunk.getRows() as DuckDBRow[]);
  }
}

/** Runs a query with these clauses (where, order by, limit), and looks up the labels. */
async function readPurchases(
  connection: DuckDBConnection,
  { catalog, labels }: Generation,
  clauses: Sql,
): Promise<Purchase[]> {
  const rows = await queryRows(
    connection,
    sql`select ${raw(selectList)} from ${raw(catalog)}.purchase ${clauses}`,
  );
  return withLabels(connection, labels, rows);
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
    const present = rows.map((row) => row[index]).filter((key) => key !== noLabel);
    keys.set(name, new Set(present.map(Number)));
  });
  return keys;
}
