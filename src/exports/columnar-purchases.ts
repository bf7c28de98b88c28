import type {
  DuckDBBlobVector,
  DuckDBConnection,
  DuckDBDataChunk,
  DuckDBListVector,
  DuckDBVector,
} from '@duckdb/node-api';
import sql, { raw, type Sql } from 'sql-template-tag';
import { type PurchaseColumn, type PurchaseLabel, purchaseColumns } from '../domain/purchase.ts';
import type { PurchaseFilters } from '../domain/purchase-query.ts';
import { queryRows, streamChunks } from '../duckdb/connection.ts';
import { isOutOfMemory } from '../duckdb/memory.ts';
import { purchasesMatching } from '../engines/duckdb/filters.ts';
import {
  type Bitmap,
  type ColumnData,
  isPresent,
  type PackedTexts,
  type PlainValues,
  valueAt,
} from '../http/formats/column-data.ts';
import type { TableBatch } from '../http/formats/table.ts';
import { labelKey } from '../purchase-store/layout.ts';
import { writeCoupons } from '../resources/purchase-table.ts';
import { createColumnarIds } from './columnar-ids.ts';
import {
  columnarLabels,
  type LabelValues,
  readLabelValues,
  readUsedValues,
} from './columnar-labels.ts';
import { createRowRanges } from './row-ranges.ts';

/**
 * All purchases of an attached file that match, as rows of `purchaseTable`. DuckDB puts
 * together what many rows have in a column: made one by one, texts would take several
 * times as long as all else. A statement is under way on each of the connections.
 */
export async function* readColumnarPurchases(
  connections: readonly DuckDBConnection[],
  catalog: string,
  filters: PurchaseFilters,
): AsyncGenerator<TableBatch> {
  const [connection] = connections as [DuckDBConnection];
  const matching = (await purchasesMatching(connection, catalog, filters)) ?? sql`false`;
  const from = sql`${raw(catalog)}.purchase where ${matching}`;
  const labels = await readLabelValues(connection, catalog);
  const [row] = await queryRows(
    connection,
    sql`select (select count(*) from ${from}), coalesce(max(rowid), -1) from ${raw(catalog)}.purchase`,
  );
  const [expected, greatest] = row as [bigint, bigint];
  const ranges = createRowRanges(greatest + 1n);
  const begin = (on: DuckDBConnection): Reading[] => {
    const range = ranges.next();
    if (range === null) return [];
    const condition = sql`${matching}
      and purchase.rowid >= ${range.begin} and purchase.rowid < ${range.end}`;
    const read = readRange(on, catalog, condition, labels).catch((error) => {
      if (isOutOfMemory(error) && ranges.halve(range)) return null;
      throw error;
    });
    // Awaited in its turn.
    read.catch(() => {});
    return [{ on, read }];
  };
  let purchases = 0n;
  const under: Reading[] = connections.flatMap(begin);
  for (let reading = under.shift(); reading !== undefined; reading = under.shift()) {
    const read = await reading.read;
    under.push(...begin(reading.on));
    if (read === null) continue;
    const { chunk, labelBytes } = read;
    const rowCount = rowCountOf(chunk);
    purchases += BigInt(rowCount);
    if (rowCount === 0) {
      ranges.noteRead(0);
      continue;
    }
    const { data, textBytes } = readColumns(chunk, rowCount, read.labels);
    // Texts would otherwise wait for the garbage collector, which does not see them.
    chunk.reset();
    ranges.noteRead(textBytes + labelBytes);
    yield { rowCount, data };
  }
  if (purchases === expected) return;
  throw new Error(`the file is damaged: of ${expected} purchases ${purchases} were read`);
}

type Reading = { readonly on: DuckDBConnection; readonly read: Promise<RangeRead | null> };

type RangeRead = {
  readonly chunk: DuckDBDataChunk;
  readonly labels: ReadonlyMap<PurchaseLabel, LabelValues>;
  /** Of values that were read for this range alone. */
  readonly labelBytes: number;
};

async function readRange(
  connection: DuckDBConnection,
  catalog: string,
  condition: Sql,
  shared: ReadonlyMap<PurchaseLabel, readonly string[] | null>,
): Promise<RangeRead> {
  const chunk = await readChunk(
    connection,
    sql`select count(*), ${raw(packed)} from ${raw(catalog)}.purchase where ${condition}`,
  );
  const labels = new Map<PurchaseLabel, LabelValues>();
  let labelBytes = 0;
  if (rowCountOf(chunk) === 0) return { chunk, labels, labelBytes };
  for (const [label, sharedValues] of shared) {
    if (sharedValues !== null) {
      labels.set(label, sharedValues);
      continue;
    }
    const { values, bytes } = await readUsedValues(connection, catalog, label, condition);
    labels.set(label, values);
    labelBytes += bytes;
  }
  return { chunk, labels, labelBytes };
}

const isText = (kind: PurchaseColumn['kind']) => kind === 'text' || kind === 'coupons';

/** What `readColumns` reads: all rows' values, of texts the bytes and the lengths. */
const packed = purchaseColumns
  .map(({ name, kind }) => {
    const column = `purchase.${name}`;
    if (isText(kind)) return `encode(string_agg(${column}, '')), list(strlen(${column})::integer)`;
    if (kind === 'instant') return `list(epoch_us(${column}))`;
    return `list(${kind === 'label' ? `purchase.${labelKey(name)}` : column})`;
  })
  .join(', ');

async function readChunk(connection: DuckDBConnection, statement: Sql): Promise<DuckDBDataChunk> {
  for await (const chunk of streamChunks(connection, statement)) return chunk;
  throw new Error('an aggregate has one row');
}

const rowCountOf = (chunk: DuckDBDataChunk): number => Number(chunk.getColumnVector(0).getItem(0));

const packPurchaseIds = createColumnarIds('purchase');
const packCustomerIds = createColumnarIds('customer');

function readColumns(
  chunk: DuckDBDataChunk,
  rowCount: number,
  labels: ReadonlyMap<PurchaseLabel, LabelValues>,
): { readonly data: readonly ColumnData[]; readonly textBytes: number } {
  let place = 0;
  let textBytes = 0;
  const next = (): DuckDBVector => {
    place += 1;
    return chunk.getColumnVector(place);
  };
  const data = purchaseColumns.map(({ name, kind }): ColumnData => {
    if (isText(kind)) {
      const bytes = (next() as DuckDBBlobVector).getItemBytes(0) ?? Buffer.alloc(0);
      textBytes += bytes.byteLength;
      const texts = textsOf(bytes, itemsOf(next()), rowCount);
      return kind === 'coupons' ? showCoupons(texts, rowCount) : texts;
    }
    const { items, present } = itemsOf(next());
    if (kind === 'label') return columnarLabels(items as Int32Array, labels.get(name) ?? []);
    if (kind === 'purchase_id') return packPurchaseIds(items as BigInt64Array);
    if (kind === 'customer_id') return packCustomerIds(items as BigInt64Array);
    return { integers: cleared(items as BigInt64Array, present), present };
  });
  return { data, textBytes };
}

const showCoupons = (stored: PackedTexts, rowCount: number): PlainValues =>
  Array.from({ length: rowCount }, (_, row) => {
    const text = valueAt(stored, row);
    return text === null ? null : writeCoupons(text as string);
  });

/** Where a row has no value DuckDB leaves whatever its memory held before: none of a reader's business. */
function cleared(integers: BigInt64Array, present: Bitmap | null): BigInt64Array {
  if (present === null) return integers;
  for (let row = 0; row < integers.length; row += 1) {
    if (!isPresent(present, row)) integers[row] = 0n;
  }
  return integers;
}

type Items = { readonly items: BigInt64Array | Int32Array; readonly present: Bitmap | null };

/** What the vectors have and their types keep for themselves. */
type NumberVector = {
  readonly items: BigInt64Array | Int32Array;
  readonly validity: { readonly data: BigUint64Array | null };
};

/** Of the list that is a result's only row; node-api has copied it. */
function itemsOf(vector: DuckDBVector): Items {
  const { items, validity } = (vector as DuckDBListVector).childVector as unknown as NumberVector;
  const { data } = validity;
  const present =
    data === null ? null : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return { items, present };
}

function textsOf(bytes: Uint8Array, { items, present }: Items, rowCount: number): PackedTexts {
  const offsets = new Int32Array(rowCount + 1);
  let end = 0;
  for (let row = 0; row < rowCount; row += 1) {
    if (isPresent(present, row)) end += items[row] as number;
    offsets[row + 1] = end;
  }
  return { bytes, offsets, present };
}
