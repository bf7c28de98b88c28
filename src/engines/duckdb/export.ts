import type { DuckDBConnection, DuckDBDataChunk, DuckDBVector } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { type Bitmap, bitmapOf, type ColumnData } from '../../domain/column-data.ts';
import { type PurchaseLabel, purchaseColumns, purchaseLabels } from '../../domain/purchase.ts';
import type { PurchaseBatch } from '../../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import { queryRows, streamChunks } from './connection.ts';
import { purchasesMatching } from './filters.ts';
import { labelKey, labelTable, noLabel } from './layout.ts';

/** All purchases of an attached file that match, column by column. */
export async function* exportPurchases(
  connection: DuckDBConnection,
  catalog: string,
  filters: PurchaseFilters,
): AsyncGenerator<PurchaseBatch> {
  const matching = await purchasesMatching(connection, catalog, filters);
  if (matching === null) return;
  const dictionaries = await readDictionaries(connection, catalog);
  const { select, joins } = selection(catalog, dictionaries);
  const statement = sql`select ${raw(select)} from ${raw(catalog)}.purchase ${raw(joins)} where ${matching}`;
  for await (const chunk of streamChunks(connection, statement)) {
    yield readChunk(chunk, dictionaries);
  }
}

type Dictionaries = ReadonlyMap<PurchaseLabel, readonly string[]>;

/** More texts than these are joined to the rows rather than remembered. */
const mostRemembered = 50_000;

async function readDictionaries(
  connection: DuckDBConnection,
  catalog: string,
): Promise<Dictionaries> {
  const dictionaries = new Map<PurchaseLabel, readonly string[]>();
  for (const label of purchaseLabels) {
    const table = raw(`${catalog}.${labelTable(label)}`);
    const [size] = await queryRows(connection, sql`select count(*) from ${table}`);
    if ((size?.[0] as bigint) > mostRemembered) continue;
    const values: string[] = [];
    const rows = await queryRows(connection, sql`select key, value from ${table} order by key`);
    for (const [key, value] of rows) values[key as number] = value as string;
    // No holes: keys begin at some number, and are dense from there.
    dictionaries.set(
      label,
      Array.from(values, (value) => value ?? ''),
    );
  }
  return dictionaries;
}

function selection(catalog: string, dictionaries: Dictionaries) {
  const joined = purchaseLabels.filter((label) => !dictionaries.has(label));
  const select = purchaseColumns.map(({ name, kind }) => {
    if (kind === 'instant') return `epoch_us(purchase.${name})`;
    if (kind !== 'label') return `purchase.${name}`;
    return dictionaries.has(name) ? `purchase.${labelKey(name)}` : `of_${name}.value`;
  });
  return { select: select.join(', '), joins: joinLabels(catalog, joined) };
}

/** Joins the values of labels to an attached file's purchases, each as `of_<label>.value`. */
export function joinLabels(catalog: string, labels: readonly PurchaseLabel[]): string {
  return labels
    .map(
      (label) =>
        `left join ${catalog}.${labelTable(label)} as of_${label} on of_${label}.key = purchase.${labelKey(label)}`,
    )
    .join(' ');
}

/** What the vectors have and their types leave out, or keep for themselves. */
type PackedVector = DuckDBVector & {
  readonly items: BigInt64Array | Int32Array;
  readonly validity: { readonly data: BigUint64Array | null };
};

/** Copies what it takes: a chunk's memory is DuckDB's. */
function readChunk(chunk: DuckDBDataChunk, dictionaries: Dictionaries): PurchaseBatch {
  const { rowCount } = chunk;
  const data = purchaseColumns.map(({ name, kind }, index): ColumnData => {
    const vector = chunk.getColumnVector(index) as PackedVector;
    const values = kind === 'label' ? dictionaries.get(name) : undefined;
    if (values !== undefined) {
      const keys = (vector.items as Int32Array).slice();
      return { keys, present: bitmapOf(rowCount, (row) => keys[row] !== noLabel), values };
    }
    if (kind === 'text' || kind === 'label' || kind === 'coupons') {
      return Array.from({ length: rowCount }, (_, row) => vector.getItem(row) as string | null);
    }
    return { integers: (vector.items as BigInt64Array).slice(), present: copyOfBitmap(vector) };
  });
  return { rowCount, data };
}

function copyOfBitmap({ validity: { data } }: PackedVector): Bitmap | null {
  return data === null
    ? null
    : new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice();
}
