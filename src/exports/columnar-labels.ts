import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import { type PurchaseLabel, purchaseLabels } from '../domain/purchase.ts';
import { queryRows, streamChunks } from '../duckdb/connection.ts';
import {
  type Bitmap,
  bitmapOf,
  isPresent,
  type PackedLabels,
} from '../http/formats/column-data.ts';
import { labelKey, labelTable, noLabel } from '../purchase-store/layout.ts';

/** Values at the places of their keys: all of a label, or those that some rows use. */
export type LabelValues = readonly string[] | ReadonlyMap<number, string>;

/**
 * All values of each label. Of a label with too many, null: they are read for each batch.
 * Throws where a dictionary of an attached file lacks what its purchases refer to.
 */
export async function readLabelValues(
  connection: DuckDBConnection,
  catalog: string,
): Promise<ReadonlyMap<PurchaseLabel, readonly string[] | null>> {
  const maxima = purchaseLabels.map((label) => sql`max(${raw(labelKey(label))})`);
  // Known without a scan.
  const [greatest] = await queryRows(
    connection,
    sql`select ${join(maxima)} from ${raw(catalog)}.purchase`,
  );
  const labels = new Map<PurchaseLabel, readonly string[] | null>();
  for (const [index, label] of purchaseLabels.entries()) {
    if (!(await isShared(connection, catalog, label))) {
      labels.set(label, null);
      continue;
    }
    const values: string[] = [];
    values[noLabel] = '';
    await readValues(connection, catalog, label, sql`order by key`, (key, value) => {
      if (key === values.length) values.push(value);
    });
    if (Number(greatest?.[index]) >= values.length) {
      throw new Error(`the file is damaged: ${labelTable(label)} has no key ${values.length}`);
    }
    labels.set(label, values);
  }
  return labels;
}

/** A batch of few rows is not to come with more values than these, nor with more bytes. */
const maxSharedValues = 50_000n;
const maxSharedBytes = 4n * 2n ** 20n;

async function isShared(
  connection: DuckDBConnection,
  catalog: string,
  label: PurchaseLabel,
): Promise<boolean> {
  const [row] = await queryRows(
    connection,
    sql`select count(*), coalesce(sum(strlen(value)), 0)::bigint
      from ${raw(`${catalog}.${labelTable(label)}`)}`,
  );
  const [values, bytes] = row as [bigint, bigint];
  return values < maxSharedValues && bytes <= maxSharedBytes;
}

/** Values of a label that the purchases of `condition` use, and the bytes that they take. */
export async function readUsedValues(
  connection: DuckDBConnection,
  catalog: string,
  label: PurchaseLabel,
  condition: Sql,
): Promise<{ readonly values: ReadonlyMap<number, string>; readonly bytes: number }> {
  const values = new Map<number, string>();
  let bytes = 0;
  const used = sql`where key in (
    select ${raw(labelKey(label))} from ${raw(catalog)}.purchase where ${condition})`;
  await readValues(connection, catalog, label, used, (key, value) => {
    values.set(key, value);
    bytes += value.length;
  });
  return { values, bytes };
}

async function readValues(
  connection: DuckDBConnection,
  catalog: string,
  label: PurchaseLabel,
  which: Sql,
  take: (key: number, value: string) => void,
): Promise<void> {
  const statement = sql`select key, value from ${raw(`${catalog}.${labelTable(label)}`)} ${which}`;
  for await (const chunk of streamChunks(connection, statement)) {
    const [keys, texts] = [chunk.getColumnVector(0), chunk.getColumnVector(1)];
    for (let row = 0; row < chunk.rowCount; row += 1) {
      take(keys.getItem(row) as number, texts.getItem(row) as string);
    }
  }
}

/** Of each row's key. Throws where a value is missing. */
export function columnarLabels(keys: Int32Array, values: LabelValues): PackedLabels {
  const present = bitmapOf(keys, noLabel);
  return Array.isArray(values)
    ? { keys, present, values: values as readonly string[] }
    : packUsedLabels(keys, present, values as ReadonlyMap<number, string>);
}

function packUsedLabels(
  keys: Int32Array,
  present: Bitmap | null,
  values: ReadonlyMap<number, string>,
): PackedLabels {
  const places = new Map<number, number>();
  const used: string[] = [];
  const placed = keys.map((key, row) => {
    if (!isPresent(present, row)) return 0;
    const place = places.get(key) ?? used.length;
    if (place === used.length) {
      const value = values.get(key);
      if (value === undefined) throw new Error(`the file is damaged: a label has no key ${key}`);
      places.set(key, place);
      used.push(value);
    }
    return place;
  });
  return { keys: placed, present, values: used };
}
