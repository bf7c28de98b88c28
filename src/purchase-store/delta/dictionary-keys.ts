import { BIGINT, type DuckDBConnection, INTEGER, UTINYINT, VARCHAR } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import { appendColumns } from '../../duckdb/append.ts';
import { queryRows } from '../../duckdb/connection.ts';
import { listed } from '../../duckdb/listed.ts';
import type { Shortcuts } from '../../duckdb/shortcuts.ts';
import { createBoundedCache } from '../../process/bounded-cache.ts';
import {
  customerDictionary,
  type Dictionary,
  dictionaries,
  firstKey,
  positionOf,
} from '../format/layout.ts';
import { dictionaryEntries, type StoreCatalogs } from '../format/relations.ts';
import { type CustomerIndex, readCustomerIndex } from './customer-index.ts';

/** A customer's id, or a label. */
export type DictionaryValue = bigint | string;

export type KeysByValue = ReadonlyMap<DictionaryValue, number>;

/**
 * Returns the keys of values, and inserts those that base and delta lack into the delta. Call it
 * within a transaction. If the transaction fails, open the delta again: the next keys are not rolled back.
 */
export type DictionaryKeys = (
  connection: DuckDBConnection,
  wanted: ReadonlyMap<Dictionary, ReadonlySet<DictionaryValue>>,
) => Promise<ReadonlyMap<Dictionary, KeysByValue>>;

/** The next key of each dictionary. */
export type NextKeys = Map<Dictionary, number>;

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

/** So many bytes of labels are kept with their keys. */
const maxKeptLabelBytes = 2 ** 19;
/** An entry of the cache, besides its label. */
const bytesPerKeptLabel = 100;

/** A copy: a label is a part of a line of the log, which it would keep in memory. */
const keptName = ({ name }: Dictionary, label: DictionaryValue): string => `${name} ${label}`;

/** Only the returned function may write to the dictionaries of the delta. */
export function createDictionaryKeys(
  catalogs: StoreCatalogs,
  nextKeys: NextKeys,
  shortcuts: Shortcuts,
): DictionaryKeys {
  const isIndexed = (nextKeys.get(customerDictionary) as number) <= shortcuts.maxIndexedCustomers;
  /** Of customers, once they are read; null if these are too many. */
  let customers: Promise<CustomerIndex> | null = null;
  const labels = createBoundedCache<string, number>(
    maxKeptLabelBytes,
    (_, { length }) => 2 * length + bytesPerKeptLabel,
  );
  return async (connection, wanted) => {
    const found = new Map(
      [...wanted.keys()].map((each) => [each, new Map<DictionaryValue, number>()]),
    );
    const keysOf = (dictionary: Dictionary) =>
      found.get(dictionary) as Map<DictionaryValue, number>;
    if (isIndexed && customers === null && wanted.get(customerDictionary)?.size) {
      customers = readCustomerIndex(connection, catalogs);
    }
    const index = await customers;
    const isKept = (dictionary: Dictionary) => dictionary === customerDictionary && index !== null;
    const missing: [Dictionary, Set<DictionaryValue>][] = [];
    for (const [dictionary, values] of wanted) {
      const keyOf = (value: DictionaryValue) =>
        isKept(dictionary)
          ? index?.keyOf(value as bigint)
          : labels.get(keptName(dictionary, value));
      const others = new Set<DictionaryValue>();
      for (const value of values) {
        const key = keyOf(value);
        if (key === undefined) others.add(value);
        else keysOf(dictionary).set(value, key);
      }
      const isEmpty = nextKeys.get(dictionary) === firstKey(dictionary);
      if (others.size > 0 && !isEmpty && !isKept(dictionary)) missing.push([dictionary, others]);
    }
    // One statement for all dictionaries: each takes a millisecond to plan and to run.
    if (missing.length > 0) {
      for (const [name, value, key] of await queryRows(
        connection,
        lookUp(catalogs, missing, shortcuts),
      )) {
        const dictionary = dictionaries.find((each) => each.name === name) as Dictionary;
        keysOf(dictionary).set(parseValue(dictionary, value as string), key as number);
      }
    }
    const added: AddedEntry[] = [];
    for (const [dictionary, values] of wanted) {
      const keys = keysOf(dictionary);
      let key = nextKeys.get(dictionary) as number;
      for (const value of values) {
        if (keys.has(value)) continue;
        added.push({ dictionary, key, value });
        if (isKept(dictionary)) index?.add(value as bigint, key);
        keys.set(value, key++);
      }
      nextKeys.set(dictionary, key);
      if (dictionary !== customerDictionary) {
        for (const [value, each] of keys) labels.set(keptName(dictionary, value), each);
      }
    }
    await appendEntries(connection, catalogs.delta, added);
    return found;
  };
}

const parseValue = ({ name }: Dictionary, text: string): DictionaryValue =>
  name === 'customer' ? BigInt(text) : text;

/** Selects name, value as text, and key of the entries with these values. */
function lookUp(
  catalogs: StoreCatalogs,
  wanted: readonly (readonly [Dictionary, ReadonlySet<DictionaryValue>])[],
  shortcuts: Shortcuts,
): Sql {
  const parts = wanted.map(([dictionary, values]) => {
    const value = raw(dictionary.value);
    return sql`
      select ${dictionary.name}::varchar, ${value}::varchar, key
      from ${dictionaryEntries(catalogs, dictionary)} where ${value} in (${listed([...values], typeOf(dictionary), shortcuts)})`;
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
