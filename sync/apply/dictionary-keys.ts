import { BIGINT, type DuckDBConnection, LIST, listValue, VARCHAR } from '@duckdb/node-api';
import type { PurchaseLabel } from '../../src/domain/purchase.ts';
import {
  customerDictionary,
  type Dictionary,
  firstKey,
  labelDictionary,
} from '../../src/purchase-store/layout.ts';

type Value = bigint | string;

/**
 * Looks up keys in the dictionaries of one file, and inserts missing values. Call it within a
 * transaction. If the transaction fails, reopen the file: the cache of keys is not rolled back.
 */
export type DictionaryKeys = {
  ofLabels(label: PurchaseLabel, values: ReadonlySet<string>): Promise<ReadonlyMap<string, number>>;
  ofCustomers(ids: ReadonlySet<bigint>): Promise<ReadonlyMap<bigint, number>>;
};

/** The cache of a label is cleared beyond this size. */
const maxCachedKeys = 4_096;

export function createDictionaryKeys(
  connection: DuckDBConnection,
  catalog: string,
): DictionaryKeys {
  const cache = new Map<string, Map<string, number>>();

  const read = async <Of extends Value>(statement: string, values: Iterable<Of>) => {
    const list = [...values];
    const type = typeof list[0] === 'bigint' ? BIGINT : VARCHAR;
    const reader = await connection.runAndReadAll(statement, [listValue(list)], [LIST(type)]);
    return reader.getRows() as [value: Of, key: number][];
  };

  const find = async <Of extends Value>(
    dictionary: Dictionary,
    wanted: ReadonlySet<Of>,
    known: ReadonlyMap<Of, number>,
  ): Promise<Map<Of, number>> => {
    const { table, value } = dictionary;
    const keys = new Map<Of, number>();
    const missing = new Set<Of>();
    const take = (of: Of, key: number) => {
      keys.set(of, key);
      missing.delete(of);
    };
    for (const each of wanted) {
      const key = known.get(each);
      if (key === undefined) missing.add(each);
      else keys.set(each, key);
    }
    if (missing.size === 0) return keys;
    const name = `${catalog}.${table}`;
    const present = `select ${value}, key from ${name} where ${value} in (select unnest($1))`;
    for (const [of, key] of await read(present, missing)) take(of, key);
    if (missing.size === 0) return keys;
    const add = `
      insert into ${name} (key, ${value})
      select (select coalesce(max(key) + 1, ${firstKey(dictionary)}) from ${name}) + row_number() over () - 1, added
      from (select unnest($1) as added)
      returning ${value}, key`;
    for (const [of, key] of await read(add, missing)) take(of, key);
    return keys;
  };

  return {
    async ofLabels(label, values) {
      const known = cache.get(label) ?? new Map<string, number>();
      const keys = await find(labelDictionary(label), values, known);
      if (known.size + keys.size > maxCachedKeys) known.clear();
      for (const [value, key] of keys) known.set(value, key);
      cache.set(label, known);
      return keys;
    },
    ofCustomers: (ids) => find(customerDictionary, ids, new Map()),
  };
}
