import { type DuckDBConnection, DuckDBTimestampValue } from '@duckdb/node-api';
import sql, { empty, raw, type Sql } from 'sql-template-tag';
import { purchaseColumns } from '../../../domain/purchase.ts';
import type { PurchaseFilters, PurchasePlace } from '../../../domain/purchase-query.ts';
import { type DuckDBRow, iterateRows } from '../../../duckdb/connection.ts';
import { type Shortcuts, shortcutSettings } from '../../../duckdb/shortcuts.ts';
import { labelKey } from '../../../purchase-store/format/layout.ts';
import { type StoreCatalogs, signedPurchases } from '../../../purchase-store/format/relations.ts';
import { narrowed, type RowConditions } from '../filters.ts';
import { type Generation, type GenerationSummary, timeBounds } from '../serving/generation.ts';

/** The columns of purchases, with the keys of labels. */
export const selectList = purchaseColumns
  .map(({ name, kind }) => {
    if (kind === 'label') return labelKey(name);
    return kind === 'instant' ? `epoch_us(${name})` : name;
  })
  .join(', ');

type PageQuery = {
  readonly filters: PurchaseFilters;
  /** Those of the filters. */
  readonly conditions: RowConditions;
  readonly cursor: PurchasePlace | null;
  readonly limit: number;
};

/** `isNarrow`: the range holds few rows, so the base needs no limit. */
type Range = { readonly conditions: RowConditions; readonly isNarrow: boolean };

/**
 * The rows of a page, with the columns of `selectList`. Reads a narrow time window. If the page is not full,
 * reads the rest before the window.
 */
export async function readPageRows(
  connection: DuckDBConnection,
  { catalogs, summary }: Generation,
  { filters, conditions, cursor, limit }: PageQuery,
  shortcuts: Shortcuts,
): Promise<DuckDBRow[]> {
  const bounds = timeBounds(summary, filters);
  const until =
    cursor !== null && cursor.createdAt < bounds.until ? cursor.createdAt : bounds.until;
  const { pagesPerWindow } = shortcuts;
  const begin = narrowWindow(until, summary, pagesPerWindow * limit);
  // One customer's purchases are spread over all time, so the window is no use. A limit of the base's
  // rows takes 17 instead of 120 ms for a customer with 1,200 of ten million purchases.
  const hasWindow =
    filters.customerId === undefined && pagesPerWindow !== shortcutSettings.pagesPerWindow.off;
  const listed = cursor === null ? conditions : narrowed(conditions, isAfter(cursor));
  const instant = new DuckDBTimestampValue(begin);
  const ranges: Range[] =
    !hasWindow || begin <= bounds.since
      ? [{ conditions: listed, isNarrow: hasWindow }]
      : [
          { conditions: narrowed(listed, sql`created_at >= ${instant}`), isNarrow: true },
          { conditions: narrowed(listed, sql`created_at < ${instant}`), isNarrow: false },
        ];
  const rows: DuckDBRow[] = [];
  for (const range of ranges) {
    const missing = limit - rows.length;
    if (missing > 0) rows.push(...(await readNewest(connection, catalogs, range, missing)));
  }
  return rows;
}

/**
 * The newest matching purchases. Superseded rows are read too, and dropped here, because an anti
 * join takes longer. It would also hide from DuckDB where the page ends: DuckDB begins with the
 * newest row groups of the base, and skips those that are older than the rows found so far. That
 * needs a limit on the base alone, which takes 0.4 ms to plan, so a narrow range has none.
 */
async function readNewest(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  { conditions, isNarrow }: Range,
  limit: number,
): Promise<DuckDBRow[]> {
  const current: DuckDBRow[] = [];
  let left = conditions;
  // A changed purchase has three rows: as it is, and as it was in both files. Beyond the window,
  // changes are fewer, and a limit of three rows took up to a quarter longer.
  const rowsPerPurchase = isNarrow ? 3 : 1.25;
  for (let size = Math.ceil(rowsPerPurchase * limit); ; size *= 4) {
    const limited = raw(`limit ${size}`);
    const ofBase = isNarrow ? empty : sql`order by created_at desc, id desc ${limited}`;
    const rows = await iterateRows(
      connection,
      sql`
        ${signedPurchases(catalogs, selectList, left.matching, ofBase, left.ofSuperseded)}
        order by ${newestFirst}, sign desc nulls last ${limited}`,
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
    if (last === undefined || read < size) return current;
    left = narrowed(conditions, isAfter(placeOf(last)));
  }
}

/** Two conditions on `created_at`, because zone maps skip newer row groups for the first one. */
function isAfter({ id, createdAt }: PurchasePlace): Sql {
  const instant = new DuckDBTimestampValue(createdAt);
  return sql`created_at <= ${instant} and (created_at < ${instant} or id < ${id})`;
}

const [idIndex, creationIndex] = ['id', 'created_at'].map((name) =>
  purchaseColumns.findIndex((column) => column.name === name),
) as [number, number];

/** By position, because the union shows `created_at` as a number of another name. */
const newestFirst = raw(`${creationIndex + 1} desc, ${idIndex + 1} desc`);

const placeOf = (row: DuckDBRow): PurchasePlace => ({
  id: row[idIndex] as bigint,
  createdAt: row[creationIndex] as bigint,
});

/**
 * The beginning of a time window that ends at `until`, and should hold `wanted` purchases. The width assumes that purchases are
 * distributed evenly: a wrong guess costs a second query, and never loses a purchase. Instants
 * are microseconds since 1970.
 */
function narrowWindow(
  until: bigint,
  { purchases, first, last }: GenerationSummary,
  wanted: number,
): bigint {
  const microsecondsPerPurchase = Number(last - first) / Math.max(1, purchases);
  return until - BigInt(Math.ceil(wanted * microsecondsPerPurchase)) - 1n;
}
