import { BIGINT, type DuckDBConnection, INTEGER, UTINYINT, VARCHAR } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import { appendColumns } from '../../duckdb/append.ts';
import { queryRows } from '../../duckdb/connection.ts';
import { listed } from '../../duckdb/listed.ts';
import { type Dictionary, dictionaries, firstKey, positionOf } from '../format/layout.ts';
import { dictionaryEntries, type StoreCatalogs } from '../format/relations.ts';

/** A customer's id, or a label. */
export type DictionaryValue = bigint | string;

export type KeysByValue = ReadonlyMap<DictionaryValue, number>;

/**
 * Returns the keys of values, and inserts those that base and delta lack into the delta. Call it
 * within a transaction. If the transaction fails, open the delta again: the cache is not rolled back.
 */
export type DictionaryKeys = (
  connection: DuckDBConnection,
  wanted: ReadonlyMap<Dictionary, ReadonlySet<DictionaryValue>>,
) => Promise<ReadonlyMap<Dictionary, KeysByValue>>;

/** The next key of each dictionary. */
type NextKeys = Map<Dictionary, number>;

export const firstKeys = (): NextKeys =>
  new Map(dictionaries.map((each) => [each, firstKey(each)]));

/** Reads the next key of each dictionary of base and delta. */
export async function readNextKeys(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
): Promise<NextKeys> {
  const parts = dictionaries.map(
    (dictionary) => sql`
      select coalesce(max(key) + 1, ${raw(String(firstKey(dictionary)))})
      from ${dictionaryEntries(catalogs, dictionary)}`,
  );
  const rows = await queryRows(
    connection,
    sql`select ${join(parts.map((part) => sql`(${part})`))}`,
  );
  return new Map(dictionaries.map((each, index) => [each, rows[0]?.[index] as number]));
}

/** The cache of a dictionary is cleared beyond this size. */
const maxCachedKeys = 4_096;

/** Only the returned function may write to the dictionaries of the delta. */
export function createDictionaryKeys(catalogs: StoreCatalogs, nextKeys: NextKeys): DictionaryKeys {
  const caches = new Map(
    dictionaries.map((dictionary) => [dictionary, new Map<DictionaryValue, number>()]),
  );
  const cacheOf = (dictionary: Dictionary) =>
    caches.get(dictionary) as Map<DictionaryValue, number>;

  return async (connection, wanted) => {
    const missing = new Map<Dictionary, DictionaryValue[]>();
    for (const [dictionary, values] of wanted) {
      const cache = cacheOf(dictionary);
      if (cache.size + values.size > maxCachedKeys) cache.clear();
      const unknown = [...values].filter((value) => !cache.has(value));
      if (unknown.length > 0) missing.set(dictionary, unknown);
    }
    const hasEntries = ([each]: [Dictionary, unknown]) => nextKeys.get(each) !== firstKey(each);
    const present = new Map([...missing].filter(hasEntries));
    // One statement for all dictionaries: each takes a millisecond to plan and to run.
    if (present.size > 0) {
      for (const [name, value, key] of await queryRows(connection, lookUp(catalogs, present))) {
        const dictionary = dictionaries.find((each) => each.name === name) as Dictionary;
        cacheOf(dictionary).set(parseValue(dictionary, value as string), key as number);
      }
    }
    const added: AddedEntry[] = [];
    for (const [dictionary, values] of missing) {
      const cache = cacheOf(dictionary);
      let key = nextKeys.get(dictionary) as number;
      for (const value of values) {
        if (cache.has(value)) continue;
        added.push({ dictionary, key, value });
        cache.set(value, key++);
      }
      nextKeys.set(dictionary, key);
    }
    await appendEntries(connection, catalogs.delta, added);
    return caches;
  };
}

const parseValue = ({ name }: Dictionary, text: string): DictionaryValue =>
  name === 'customer' ? BigInt(text) : text;

/** Selects name, value as text, and key of the entries with these values. */
function lookUp(
  catalogs: StoreCatalogs,
  missing: ReadonlyMap<Dictionary, readonly DictionaryValue[]>,
): Sql {
  const parts = [...missing].map(([dictionary, values]) => {
    const value = raw(dictionary.value);
    return sql`
      select ${dictionary.name}::varchar, ${value}::varchar, key
      from ${dictionaryEntries(catalogs, dictionary)} where ${value} in (${listed(values, typeOf(dictionary))})`;
  });
  return join(parts, ' union all ');
}

const typeOf = ({ name }: Dictionary) => (name === 'customer' ? 'bigint' : 'varchar');

type AddedEntry = {
  readonly dictionary: Dictionary;
  readonly key: number;
  readonly value: DictionaryValue;
};

const appendEntries = (
  connection: DuckDBConnection,
  catalog: string,
  added: readonly AddedEntry[],
): Promise<void> =>
  appendColumns(
    connection,
    { catalog, table: 'entry' },
    [UTINYINT, INTEGER, BIGINT, VARCHAR],
    [
      added.map(({ dictionary }) => positionOf(dictionary)),
      added.map(({ key }) => key),
      added.map(({ value }) => (typeof value === 'bigint' ? value : null)),
      added.map(({ value }) => (typeof value === 'bigint' ? null : value)),
    ],
  );
