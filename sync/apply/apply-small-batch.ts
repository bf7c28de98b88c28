import {
  BIGINT,
  type DuckDBConnection,
  DuckDBDataChunk,
  DuckDBTimestampValue,
  type DuckDBType,
  type DuckDBValue,
  INTEGER,
  LIST,
  listValue,
  TIMESTAMP,
  VARCHAR,
} from '@duckdb/node-api';
import { type PurchaseColumn, purchaseColumns } from '../../src/domain/purchase.ts';
import { dictionaries, noLabel, storedColumns } from '../../src/purchase-store/layout.ts';
import { quarterHourOf } from '../../src/purchase-store/quarter-hours.ts';
import { type Watermark, writeWatermark } from '../capture/watermark.ts';
import type { PurchaseFile } from '../files/purchase-file.ts';
import { chunkRows, type StagedPurchase } from './staging.ts';
import { columnOf, inTransaction, upsertEncoded } from './write-staged.ts';

/** The largest small batch: one DuckDB vector. */
export const smallBatchRows = chunkRows;

/**
 * Applies changes as `applyStaged` does, with labels and customers encoded here instead of by
 * joins with ten dictionaries. Measured with 200,000 purchases, `applyStaged` and publishing took
 * 1.5 times as long for 1 change, 1.65 times for 50 and 1.7 times for 1,000. An `applyStaged`
 * that extends only dictionaries without a value took 1.2 times for 1 and 50, 1.6 for 1,000.
 */
export async function applySmallBatch(
  { connection, catalog, dictionaryKeys }: PurchaseFile,
  changes: readonly StagedPurchase[],
  watermark: Watermark,
): Promise<void> {
  const rows = changes.flatMap(({ row }) => (row === null ? [] : [row]));
  const deleted = changes.flatMap(({ id, row }) => (row === null ? [id] : []));
  await inTransaction(connection, async () => {
    if (deleted.length > 0) {
      const statement = `delete from ${catalog}.purchase where id in (select unnest($1))`;
      await connection.run(statement, [listValue(deleted)], [LIST(BIGINT)]);
    }
    if (rows.length > 0) {
      const encode = await createEncoder(dictionaryKeys, rows);
      await fillEncoded(connection, rows.map(encode));
      await upsertEncoded(connection, catalog);
    }
    await writeWatermark(connection, catalog, watermark);
  });
}

type Row = NonNullable<StagedPurchase['row']>;

const positionOf = (name: string): number =>
  purchaseColumns.findIndex((column) => column.name === name);

/** Returns a function that encodes a row of Postgres for the table `purchase`. */
async function createEncoder(
  dictionaryKeys: PurchaseFile['dictionaryKeys'],
  rows: readonly Row[],
): Promise<(row: Row) => DuckDBValue[]> {
  const keys = new Map<string, ReadonlyMap<unknown, number>>();
  for (const dictionary of dictionaries) {
    const column = columnOf(dictionary);
    const values = new Set(rows.map((row) => row[positionOf(column)] ?? null));
    values.delete(null);
    keys.set(column, await dictionaryKeys(dictionary, values as Set<bigint | string>));
  }
  const encode = ({ name, kind }: PurchaseColumn, value: Row[number]): DuckDBValue[] => {
    const key = keys.get(name)?.get(value) ?? null;
    if (kind === 'customer_id') return [value, key];
    if (kind === 'label') return [value === null ? noLabel : key];
    if (value === null) return [null];
    if (kind !== 'instant') return [value];
    const instant = new DuckDBTimestampValue(value as bigint);
    return name === 'created_at' ? [instant, quarterHourOf(value as bigint)] : [instant];
  };
  return (row) =>
    purchaseColumns.flatMap((column, position) => encode(column, row[position] ?? null));
}

const typesByName: Readonly<Record<string, DuckDBType>> = {
  bigint: BIGINT,
  integer: INTEGER,
  timestamp: TIMESTAMP,
  varchar: VARCHAR,
};
const stored = purchaseColumns.flatMap(storedColumns);
const storedTypes = stored.map(({ type }) => typesByName[type] as DuckDBType);

/** Creates and fills the temp table `encoded`. */
async function fillEncoded(connection: DuckDBConnection, rows: DuckDBValue[][]): Promise<void> {
  const columns = stored.map(({ name, type }) => `${name} ${type}`);
  await connection.run(`create or replace temp table encoded (${columns.join(', ')})`);
  const appender = await connection.createAppender('encoded', 'main', 'temp');
  try {
    const chunk = DuckDBDataChunk.create(storedTypes, rows.length);
    chunk.setRows(rows);
    appender.appendDataChunk(chunk);
  } finally {
    appender.closeSync();
  }
}
