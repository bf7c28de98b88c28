import {
  BIGINT,
  DuckDBTimestampValue,
  type DuckDBType,
  type DuckDBValue,
  INTEGER,
  TIMESTAMP,
  VARCHAR,
} from '@duckdb/node-api';
import { type PurchaseColumn, purchaseColumns } from '../../src/domain/purchase.ts';
import { columnOf, dictionaries, noLabel, storedColumns } from '../../src/purchase-store/layout.ts';
import { quarterHourOf } from '../../src/purchase-store/quarter-hours.ts';
import type { SourceRow } from '../capture/row-stream.ts';
import type { DictionaryKeys } from './dictionary-keys.ts';

/** The columns of encoded purchases, in the order of the table `purchase`. */
export const encodedColumns = purchaseColumns.flatMap(storedColumns);

const typesByName: Readonly<Record<string, DuckDBType>> = {
  bigint: BIGINT,
  integer: INTEGER,
  timestamp: TIMESTAMP,
  varchar: VARCHAR,
};
export const encodedTypes = encodedColumns.map(({ type }) => typesByName[type] as DuckDBType);

/**
 * Encodes rows of Postgres for the table `purchase`, and extends the dictionaries. Looking up keys
 * here is quicker than joins with ten dictionaries: applying a batch that way was measured to
 * take 1.5 to 1.7 times as long for 1 to 1,000 changes.
 */
export async function encodePurchases(
  rows: readonly SourceRow[],
  dictionaryKeys: DictionaryKeys,
): Promise<DuckDBValue[][]> {
  const keys = new Map<string, ReadonlyMap<unknown, number>>();
  for (const dictionary of dictionaries) {
    const column = columnOf(dictionary);
    const values = new Set(rows.map((row) => row[positionOf(column)] ?? null));
    values.delete(null);
    keys.set(column, await dictionaryKeys(dictionary, values as Set<bigint | string>));
  }
  const encode = ({ name, kind }: PurchaseColumn, value: SourceRow[number]): DuckDBValue[] => {
    const key = keys.get(name)?.get(value) ?? null;
    if (kind === 'customer_id') return [value, key];
    if (kind === 'label') return [value === null ? noLabel : key];
    if (value === null) return [null];
    if (kind !== 'instant') return [value];
    const instant = new DuckDBTimestampValue(value as bigint);
    return name === 'created_at' ? [instant, quarterHourOf(value as bigint)] : [instant];
  };
  return rows.map((row) =>
    purchaseColumns.flatMap((column, position) => encode(column, row[position] ?? null)),
  );
}

const positionOf = (name: string): number =>
  purchaseColumns.findIndex((column) => column.name === name);
