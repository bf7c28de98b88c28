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
import { type DuckDBRow, iterateRows, queryRows, streamChunks } from '../../duckdb/connection.ts';
import { labelKey, noLabel } from '../../purchase-store/layout.ts';
import {
  currentPurchases,
  type StoreCatalogs,
  signedPurchases,
} from '../../purchase-store/relations.ts';
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
  const matching = await purchasesMatching(connection, generation.labels, filters);
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
  const shown = purchases.slice(0, limit);
  const hasMore = purchases.length > limit;
  const last = shown.at(-1);
  if (hasMore && last !== undefined) generation.cursors.set(last.id, last.created_at);
  return { purchases: shown, hasMore };
}

export async function findPurchase(
  connection: DuckDBConnection,
  { catalogs, labels }: Generation,
  purchaseId: bigint,
): Promise<Purchase | null> {
  const rows = await queryRows(
    connection,
    sql`select ${raw(selectList)}, sign from ${signedPurchases(catalogs, sql`id = ${purchaseId}`)}`,
  );
  const isSuperseded = rows.some((row) => row.at(-1) === -1);
  const current = isSuperseded ? rows.filter((row) => row.at(-1) === 1) : rows;
  const [purchase] = await withLabels(connection, labels, current);
  return purchase ?? null;
}

type Cursor = { readonly id: bigint; readonly createdAt: bigint };

/** A purchase that was deleted keeps its place until the next compaction of the files. */
async function findCursor(
  connection: DuckDBConnection,
  { catalogs: { base, delta }, cursors }: Generation,
  id: bigint,
): Promise<Cursor> {
  const known = cursors.get(id);
  if (known !== undefined) return { id, createdAt: known };
  const [row] = await queryRows(
    connection,
    sql`
      select epoch_us(created_at) from ${raw(delta)}.change where id = ${id} and sign > 0
      union all
      select max(epoch_us(created_at)) from ${raw(base)}.purchase where id = ${id} having count(*) > 0`,
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

/** `isNarrow`: few rows match, or few are read. */
type Range = { readonly matching: Sql; readonly isNarrow: boolean };

/** Reads a page from a narrow time window. If the page is not full, reads the rest before it. */
async function readPage(
  connection: DuckDBConnection,
  { catalogs, summary, labels }: Generation,
  { listed, limit, since, until, isScattered }: PageQuery,
): Promise<Purchase[]> {
  const begin = narrowWindow(until, summary, limit);
  const instant = new DuckDBTimestampValue(begin);
  const ranges: Range[] =
    isScattered || begin <= since
      ? [{ matching: listed, isNarrow: true }]
      : [
          { matching: sql`${listed} and created_at >= ${instant}`, isNarrow: true },
          { matching: sql`${listed} and created_at < ${instant}`, isNarrow: false },
        ];
  const rows: DuckDBRow[] = [];
  for (const range of ranges) {
    const missing = limit - rows.length;
    if (missing > 0) rows.push(...(await readNewest(connection, catalogs, range, missing)));
  }
  return withLabels(connection, labels, rows);
}

/** DuckDB sorts all rows for a larger limit: it then skips no row groups. */
const maxTopRows = 5_000;

/**
 * The newest matching purchases. Superseded rows are read too, and dropped here, because an anti
 * join takes longer. It would also hide from DuckDB where the page ends: DuckDB begins with the
 * newest row groups of the base, and skips those that are older than the rows found so far. That
 * needs a limit on the base alone, which takes 0.4 ms to plan, so a narrow range has none.
 */
async function readNewest(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  { matching, isNarrow }: Range,
  limit: number,
): Promise<DuckDBRow[]> {
  const current: DuckDBRow[] = [];
  let condition = matching;
  // A changed purchase has three rows: as it is, and as it was in both files. Beyond the window,
  // changes are fewer, and a limit of three rows took up to a quarter longer.
  const rowsPerPurchase = isNarrow ? 3 : 1.25;
  for (let size = Math.ceil(rowsPerPurchase * limit); ; size *= 4) {
    const top = Math.min(size, maxTopRows);
    const limited = raw(`limit ${top}`);
    const ofBase = isNarrow ? empty : sql`order by created_at desc, id desc ${limited}`;
    const rows = await iterateRows(
      connection,
      sql`
        select ${raw(selectList)}, sign from ${signedPurchases(catalogs, condition, ofBase)}
        order by created_at desc, id desc, sign desc nulls last ${limited}`,
    );
    const superseded = new Set<unknown>();
    let read = 0;
    let last: DuckDBRow | undefined;
    // A row of sign -1 is followed by the row of the base that it supersedes.
    for (const row of rows) {
      read += 1;
      last = row;
      const [id, sign] = [row[idIndex], row.at(-1)];
      if (sign === -1) superseded.add(id);
      else if (sign !== null || !superseded.has(id)) current.push(row);
      if (current.length === limit) return current;
    }
    if (last === undefined || read < top) return current;
    condition = sql`${matching} and ${isAfter(positionOf(last))}`;
  }
}

const [idIndex, creationIndex] = ['id', 'created_at'].map((name) =>
  purchaseColumns.findIndex((column) => column.name === name),
) as [number, number];

const positionOf = (row: DuckDBRow): Cursor => ({
  id: row[idIndex] as bigint,
  createdAt: row[creationIndex] as bigint,
});

/** Pages that a time window should hold. */
const pagesPerWindow = 8;

/**
 * The beginning of a time window that ends at `until`. The width assumes that purchases are
 * distributed evenly: a wrong guess costs a second query, and never loses a purchase. Instants
 * are microseconds since 1970.
 */
export function narrowWindow(
  until: bigint,
  { purchases, first, last }: GenerationSummary,
  pageSize: number,
): bigint {
  const microsecondsPerPurchase = Number(last - first) / Math.max(1, purchases);
  return until - BigInt(Math.ceil(pagesPerWindow * pageSize * microsecondsPerPurchase)) - 1n;
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
  const matching = await purchasesMatching(connection, labels, filters);
  if (matching === null) return;
  const statement = sql`select ${raw(selectList)} from ${currentPurchases(catalogs, matching)}`;
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
