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
import { type Generation, type LabelKeys, stretchOf } from './labels.ts';
import { labelKey, noLabel } from './layout.ts';
import { windowsBetween } from './time-windows.ts';

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
    // One customer's are few, and lie anywhere: no window is worth a look of its own.
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
 * The first `most` of what is listed, in its order. All of a purchase is read of the
 * page alone: in a narrow window of time that is likely to hold the page, or else
 * once a look at the instants alone, in ever wider windows, has told where it ends.
 */
async function readPage(
  connection: DuckDBConnection,
  generation: Generation,
  { listed, most, since: first, until, isScattered }: PageQuestion,
): Promise<Purchase[]> {
  const page = (from: Sql) => sql`
    where ${listed} ${from} order by created_at desc, id desc limit ${raw(String(most))}`;
  const [narrow, ...wider] = windowsBetween(first, until, generation.extent, most);
  if (!isScattered && narrow !== undefined) {
    const purchases = await readPurchases(connection, generation, page(isSince(narrow)));
    if (purchases.length === most) return purchases;
  }
  for (const since of isScattered ? [null] : [...wider, null]) {
    const within = since === null ? empty : isSince(since);
    const [row] = await queryRows(
      connection,
      sql`
        select count(*), epoch_us(min(created_at)) from (
          select created_at from ${raw(generation.catalog)}.purchase ${page(within)})`,
    );
    const [found, oldest] = row as [bigint, bigint | null];
    if (oldest === null && since === null) return [];
    if (oldest !== null && (since === null || Number(found) === most)) {
      return readPurchases(connection, generation, page(isSince(oldest)));
    }
  }
  throw new Error('the widest window has no end');
}

const isSince = (instant: bigint): Sql =>
  sql`and created_at >= ${new DuckDBTimestampValue(instant)}`;

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
