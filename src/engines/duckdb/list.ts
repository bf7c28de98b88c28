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
import { type Generation, type LabelCache, type LabelKeys, stretchOf } from './labels.ts';
import { narrowWindow } from './time-window.ts';

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
  const { since, until } = stretchOf(generation.extent, filters);
  const purchases = await readPage(connection, generation, {
    listed,
    most: limit + 1,
    since,
    until: cursor !== null && cursor.createdAt < until ? cursor.createdAt : until,
    // One customer's are few, and lie anywhere: the window is not worth a look.
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

/** What comes after a purchase in the list; the two halves let zone maps skip what is newer. */
function isAfter({ id, createdAt }: Cursor): Sql {
  const then = new DuckDBTimestampValue(createdAt);
  return sql`created_at <= ${then} and (created_at < ${then} or id < ${id})`;
}

type PageQuestion = {
  /** Which purchases the list has from here on. */
  readonly listed: Sql;
  readonly most: number;
  /** None of them was created before or after these instants (microseconds since 1970). */
  readonly since: bigint;
  readonly until: bigint;
  /** Whether so few match that they can be anywhere. */
  readonly isScattered: boolean;
};

/**
 * The first `most` of what is listed, in its order: of a narrow window of time that is
 * likely to hold them, or else of all. There DuckDB begins with the newest row groups, and
 * leaves out those that zone maps say are older than what it has found.
 */
async function readPage(
  connection: DuckDBConnection,
  generation: Generation,
  { listed, most, since, until, isScattered }: PageQuestion,
): Promise<Purchase[]> {
  const readWithin = (window: Sql) =>
    readPurchases(
      connection,
      generation,
      sql`where ${listed} ${window} order by created_at desc, id desc limit ${raw(String(most))}`,
    );
  const begin = narrowWindow(until, generation.extent, most);
  if (!isScattered && begin > since) {
    const purchases = await readWithin(isSince(begin));
    if (purchases.length === most) return purchases;
  }
  return readWithin(empty);
}

const isSince = (instant: bigint): Sql =>
  sql`and created_at >= ${new DuckDBTimestampValue(instant)}`;

/**
 * All purchases that match, in no order, some thousands at a time. Labels are looked up on
 * a second connection: another statement would end the stream of the first.
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
