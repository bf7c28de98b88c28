import { BIGINT, type DuckDBConnection, LIST, listValue, VARCHAR } from '@duckdb/node-api';
import { type Dictionary, firstKey } from '../../src/purchase-store/layout.ts';
import { dictionaryEntries, type StoreCatalogs } from '../../src/purchase-store/relations.ts';

/** A customer's id, or a label. */
type DictionaryValue = bigint | string;

/**
 * Returns keys of a dictionary, and inserts values that base and delta lack into the delta. Call
 * it within a transaction. If the transaction fails, reopen the file: the cache of keys is not rolled back.
 */
export type DictionaryKeys = (
  dictionary: Dictionary,
  values: ReadonlySet<DictionaryValue>,
) => Promise<ReadonlyMap<DictionaryValue, number>>;

/** The cache of a dictionary is cleared beyond this size. */
const maxCachedKeys = 4_096;

export function createDictionaryKeys(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
): DictionaryKeys {
  const caches = new Map<string, Map<DictionaryValue, number>>();

  return async (dictionary, values) => {
    const { name, value } = dictionary;
    const entries = dictionaryEntries(catalogs, dictionary).text;
    const cache = caches.get(name) ?? new Map<DictionaryValue, number>();
    caches.set(name, cache);
    if (cache.size + values.size > maxCachedKeys) cache.clear();
    const cacheMissing = async (statement: string): Promise<void> => {
      const missing = [...values].filter((each) => !cache.has(each));
      if (missing.length === 0) return;
      const type = typeof missing[0] === 'bigint' ? BIGINT : VARCHAR;
      const reader = await connection.runAndReadAll(statement, [listValue(missing)], [LIST(type)]);
      for (const [found, key] of reader.getRows() as [DictionaryValue, number][]) {
        cache.set(found, key);
      }
    };
    await cacheMissing(
      `select ${value}, key from ${entries} where ${value} in (select unnest($1))`,
    );
    await cacheMissing(`
      insert into ${catalogs.delta}.${dictionary.table} (key, ${value})
      select (select coalesce(max(key) + 1, ${firstKey(dictionary)}) from ${entries})
          + row_number() over () - 1, added
      from (select unnest($1) as added)
      returning ${value}, key`);
    return cache;
  };
}
