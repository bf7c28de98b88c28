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
import { type PurchaseColumn, purchaseColumns, purchaseLabels } from '../../src/domain/purchase.ts';
import { noLabel, storedColumns } from '../../src/purchase-store/layout.ts';
import { quarterHourOf } from '../../src/purchase-store/quarter-hours.ts';
import { type Watermark, writeWatermark } from '../capture/watermark.ts';
import type { PurchaseFile } from '../files/purchase-file.ts';
import { chunkRows, type StagedPurchase } from './staging.ts';
import { assignments, inTransaction } from './write-staged.ts';

/** The largest small batch: one DuckDB vector. */
export const smallBatchRows = chunkRows;

/**
 * Applies changes as `applyStaged` does, with labels and customers encoded here instead of by
 * joins with ten dictionaries. With 200,000 purchases, from commit to published generation,
 * `applyStaged` took 1.5 times as long for 1 change, 1.65 times for 50 and 1.7 times for 1,000.
 * If only dictionaries that lack a value were extended: 1.2 times for 1 and 50, 1.6 for 1,000.
 */
export async function applySmallBatch(
  { connection, catalog, dictionaryKeys }: PurchaseFile,
  changes: readonly StagedPurchase[],
  watermark: Watermark,
): Promise<void> {
  const rows = changes.flatMap(({ row }) => (row === null ? [] : [row]));
  await inTransaction(connection, async () => {
    const present = await findPresent(connection, catalog, changes);
    const removed = changes.filter(({ id, row }) => row === null && present.has(id));
    if (removed.length > 0) await remove(connection, catalog, removed);
    const encode = await createEncoder(dictionaryKeys, rows);
    const updated = rows.filter(([id]) => present.has(id as bigint)).map(encode);
    const added = rows
      .filter(([id]) => !present.has(id as bigint))
      .sort(byCreation)
      .map(encode);
    if (updated.length > 0) {
      await fill(connection, updated);
      await connection.run(`
        update ${catalog}.purchase set ${assignments} from encoded where purchase.id = encoded.id`);
    }
    if (added.length > 0) {
      await fill(connection, added);
      await connection.run(`insert into ${catalog}.purchase select * from encoded`);
    }
    await writeWatermark(connection, catalog, watermark);
  });
}

const withIds = (ids: readonly bigint[]): [DuckDBValue[], DuckDBType[]] => [
  [listValue(ids)],
  [LIST(BIGINT)],
];

async function findPresent(
  connection: DuckDBConnection,
  catalog: string,
  changes: readonly StagedPurchase[],
): Promise<ReadonlySet<bigint>> {
  const reader = await connection.runAndReadAll(
    `select id from ${catalog}.purchase where id in (select unnest($1))`,
    ...withIds(changes.map(({ id }) => id)),
  );
  return new Set(reader.getRows().map(([id]) => id as bigint));
}

async function remove(
  connection: DuckDBConnection,
  catalog: string,
  removed: readonly StagedPurchase[],
): Promise<void> {
  await connection.run(
    `delete from ${catalog}.purchase where id in (select unnest($1))`,
    ...withIds(removed.map(({ id }) => id)),
  );
}

type Row = NonNullable<StagedPurchase['row']>;

const positionOf = (name: string): number =>
  purchaseColumns.findIndex((column) => column.name === name);
const createdAt = positionOf('created_at');

function byCreation(one: Row, other: Row): number {
  const [first, second] = [one[createdAt] as bigint, other[createdAt] as bigint];
  if (first !== second) return first < second ? -1 : 1;
  return (one[0] as bigint) < (other[0] as bigint) ? -1 : 1;
}

/** Returns a function that encodes a row of Postgres for the table `purchase`. */
async function createEncoder(
  dictionaryKeys: PurchaseFile['dictionaryKeys'],
  rows: readonly Row[],
): Promise<(row: Row) => DuckDBValue[]> {
  const valuesAt = <Value>(position: number) => {
    const values = new Set(rows.map((row) => row[position]));
    values.delete(null);
    return values as Set<unknown> as Set<Value>;
  };
  const keys = new Map<string, ReadonlyMap<unknown, number>>();
  for (const label of purchaseLabels) {
    keys.set(label, await dictionaryKeys.ofLabels(label, valuesAt<string>(positionOf(label))));
  }
  const customers = await dictionaryKeys.ofCustomers(valuesAt<bigint>(positionOf('customer_id')));
  const encode = ({ name, kind }: PurchaseColumn, value: Row[number]): DuckDBValue[] => {
    if (kind === 'customer_id') return [value, customers.get(value as bigint) ?? null];
    if (kind === 'label') return [value === null ? noLabel : (keys.get(name)?.get(value) ?? null)];
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

async function fill(connection: DuckDBConnection, rows: DuckDBValue[][]): Promise<void> {
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
