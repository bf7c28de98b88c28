import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { join, raw } from 'sql-template-tag';
import { type PurchaseLabel, purchaseLabels } from '../domain/purchase.ts';
import { queryRows, streamChunks } from '../engines/duckdb/connection.ts';
import { labelDictionary, labelKey, labelTable, noLabel } from '../engines/duckdb/layout.ts';
import {
  type Bitmap,
  bitmapOf,
  isPresent,
  type PackedLabels,
} from '../http/formats/column-data.ts';

/** Of each label the values, at the places of their keys. */
export type LabelValues = ReadonlyMap<PurchaseLabel, readonly string[]>;

/** Throws where a dictionary of an attached file lacks what its purchases refer to. */
export async function readLabelValues(
  connection: DuckDBConnection,
  catalog: string,
): Promise<LabelValues> {
  const maxima = purchaseLabels.map((label) => sql`max(${raw(labelKey(label))})`);
  // Known without a scan.
  const [greatest] = await queryRows(
    connection,
    sql`select ${join(maxima)} from ${raw(catalog)}.purchase`,
  );
  const labels = new Map<PurchaseLabel, readonly string[]>();
  for (const [index, label] of purchaseLabels.entries()) {
    const { table, value } = labelDictionary(label);
    const values: string[] = [];
    values[noLabel] = '';
    const statement = sql`select key, ${raw(value)} from ${raw(`${catalog}.${table}`)} order by key`;
    for await (const chunk of streamChunks(connection, statement)) {
      const [keys, texts] = [chunk.getColumnVector(0), chunk.getColumnVector(1)];
      for (let row = 0; row < chunk.rowCount; row += 1) {
        if (keys.getItem(row) === values.length) values.push(texts.getItem(row) as string);
      }
    }
    if (Number(greatest?.[index]) >= values.length) {
      throw new Error(`the file is damaged: ${labelTable(label)} has no key ${values.length}`);
    }
    labels.set(label, values);
  }
  return labels;
}

/** A batch of few rows is not to come with more values than these. */
const mostShared = 50_000;

/** Of each row's key. */
export function packLabels(keys: Int32Array, values: readonly string[]): PackedLabels {
  const present = bitmapOf(keys, noLabel);
  return values.length <= mostShared
    ? { keys, present, values }
    : packUsedLabels(keys, present, values);
}

function packUsedLabels(
  keys: Int32Array,
  present: Bitmap | null,
  values: readonly string[],
): PackedLabels {
  const places = new Map<number, number>();
  const used: string[] = [];
  const placed = keys.map((key, row) => {
    if (!isPresent(present, row)) return 0;
    const place = places.get(key) ?? used.length;
    if (place === used.length) {
      places.set(key, place);
      used.push(values[key] as string);
    }
    return place;
  });
  return { keys: placed, present, values: used };
}
