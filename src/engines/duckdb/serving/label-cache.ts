import type { DuckDBConnection } from '@duckdb/node-api';
import type { LRUCache } from 'lru-cache';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import type { PurchaseLabel } from '../../../domain/purchase.ts';
import { queryRows } from '../../../duckdb/connection.ts';
import type { Shortcuts } from '../../../duckdb/shortcuts.ts';
import { createBoundedCache } from '../../../process/bounded-cache.ts';
import {
  type Entries,
  entriesOfBase,
  entriesOfDelta,
  labelDictionary,
} from '../../../purchase-store/format/layout.ts';
import { type StoreCatalogs, selectEntries } from '../../../purchase-store/format/relations.ts';

/**
 * Caches entries of dictionaries. Joining ten dictionaries to a page takes DuckDB several times as
 * long as reading the page, and pages repeat the same few values. A statement that finds the key of
 * a filter takes a quarter of a page's time. The entries of the base are cached for all generations
 * that share it: the first page of a generation took twice as long when each had a cache of its own.
 */
export type LabelCache = {
  /** Returns the values of these keys, and queries the dictionaries for keys that are not cached. */
  lookUp(connection: DuckDBConnection, keys: LabelKeys): Promise<LabelValues>;
  /** Returns the keys of those values that the dictionaries have. */
  findKeys(connection: DuckDBConnection, values: WantedValues): Promise<FoundKeys>;
};

export type LabelKeys = ReadonlyMap<PurchaseLabel, ReadonlySet<number>>;
type LabelValues = (label: PurchaseLabel, key: number) => string;

export type WantedValues = ReadonlyMap<PurchaseLabel, readonly string[]>;
/** Labels of which the dictionaries have no wanted value are missing. */
type FoundKeys = ReadonlyMap<PurchaseLabel, readonly number[]>;

/** Entries of the dictionaries of one file, which never change. */
export type FileLabels = {
  /** By label and key. */
  readonly values: LRUCache<string, string>;
  /** By label and value. */
  readonly keys: LRUCache<string, number>;
};

/** About the bytes of an entry besides its label, which may have 1,024 bytes. */
const cacheEntryBytes = 150;

export const createFileLabels = ({ labelCacheBytes }: Shortcuts): FileLabels => ({
  values: createBoundedCache(labelCacheBytes / 2, ({ length }) => length + cacheEntryBytes),
  keys: createBoundedCache(labelCacheBytes / 2, (_key, { length }) => length + cacheEntryBytes),
});

export function createLabelCache(
  catalogs: StoreCatalogs,
  shortcuts: Shortcuts,
  ofBase: FileLabels = createFileLabels(shortcuts),
): LabelCache {
  const ofDelta = createFileLabels(shortcuts);
  const cacheOf = (file: unknown) => (file === 'base' ? ofBase : ofDelta);
  return {
    async lookUp(connection, keys) {
      // Concurrent queries may evict cached values, so each result has a map of its own.
      const values = new Map<string, string>();
      const statements = [...keys].flatMap(([label, wanted]) => {
        const missing = [...wanted].filter((key) => {
          const name = `${label} ${key}`;
          const value = ofBase.values.get(name) ?? ofDelta.values.get(name);
          if (value !== undefined) values.set(name, value);
          return value === undefined;
        });
        if (missing.length === 0) return [];
        const list = join(missing.map((key) => sql`${key}::integer`));
        return [entriesOf(catalogs, label, sql`key in (${list})`)];
      });
      for (const [label, key, value, file] of await readEntries(connection, statements)) {
        cacheOf(file).values.set(`${label} ${key}`, value as string);
        values.set(`${label} ${key}`, value as string);
      }
      return (label, key) => {
        const value = values.get(`${label} ${key}`);
        if (value === undefined) throw new Error(`the dictionary of ${label} has no key ${key}`);
        return value;
      };
    },

    async findKeys(connection, wanted) {
      const keys = new Map<PurchaseLabel, number[]>();
      const add = (label: PurchaseLabel, key: number) =>
        keys.set(label, [...(keys.get(label) ?? []), key]);
      const statements = [...wanted].flatMap(([label, values]) => {
        const missing = values.filter((value) => {
          const name = `${label} ${value}`;
          const key = ofBase.keys.get(name) ?? ofDelta.keys.get(name);
          if (key !== undefined) add(label, key);
          return key === undefined;
        });
        if (missing.length === 0) return [];
        const list = join(missing.map((value) => sql`${value}`));
        return [entriesOf(catalogs, label, sql`value in (${list})`)];
      });
      for (const [label, key, value, file] of await readEntries(connection, statements)) {
        cacheOf(file).keys.set(`${label} ${value}`, key as number);
        add(label as PurchaseLabel, key as number);
      }
      return keys;
    },
  };
}

/** Rows of label, key, value and file: `base` or `delta`. */
function entriesOf({ base, delta }: StoreCatalogs, label: PurchaseLabel, condition: Sql): Sql {
  const dictionary = labelDictionary(label);
  const ofFile = (file: keyof StoreCatalogs, entries: Entries) => sql`
    select ${label}::varchar, key, value, ${file}::varchar
    from (${raw(selectEntries(entries, dictionary))}) where ${condition}`;
  const ofBase = ofFile('base', entriesOfBase(base, dictionary));
  return sql`${ofBase} union all ${ofFile('delta', entriesOfDelta(delta, dictionary))}`;
}

const readEntries = async (connection: DuckDBConnection, statements: readonly Sql[]) =>
  statements.length === 0 ? [] : queryRows(connection, join(statements, ' union all '));
