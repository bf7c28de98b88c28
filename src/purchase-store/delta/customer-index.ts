import type { DuckDBConnection } from '@duckdb/node-api';
import { customerDictionary } from '../format/layout.ts';
import { dictionaryEntries, type StoreCatalogs } from '../format/relations.ts';

/** Of an id and a key. */
export const bytesPerIndexedCustomer = 12;

/** The keys of all customers of base and delta. A statement that finds some scans the dictionary. */
export type CustomerIndex = {
  keyOf(id: bigint): number | undefined;
  /** Adds a customer that the index lacks. */
  add(id: bigint, key: number): void;
};

export async function readCustomerIndex(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
): Promise<CustomerIndex> {
  const entries = dictionaryEntries(catalogs, customerDictionary);
  const result = await connection.run(
    `select ${customerDictionary.value}, key from ${entries.text} order by 1`,
  );
  const ids = new BigInt64Array(result.rowCount);
  const keys = new Int32Array(result.rowCount);
  let at = 0;
  for (let index = 0; index < result.chunkCount; index += 1) {
    const chunk = result.getChunk(index);
    ids.set(chunk.getColumnValues(0) as bigint[], at);
    keys.set(chunk.getColumnValues(1) as number[], at);
    at += chunk.rowCount;
  }
  const added = new Map<bigint, number>();
  return {
    keyOf: (id) => added.get(id) ?? keys[indexOf(ids, id)],
    add: (id, key) => void added.set(id, key),
  };
}

/** -1 if the sorted ids lack this one. */
function indexOf(ids: BigInt64Array, id: bigint): number {
  let [first, end] = [0, ids.length];
  while (first < end) {
    const middle = (first + end) >>> 1;
    if ((ids[middle] as bigint) < id) first = middle + 1;
    else end = middle;
  }
  return ids[first] === id ? first : -1;
}
