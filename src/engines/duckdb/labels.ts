import type { DuckDBConnection } from '@duckdb/node-api';
import { LRUCache } from 'lru-cache';
import sql, { join, raw } from 'sql-template-tag';
import type { PurchaseLabel } from '../../domain/purchase.ts';
import { queryRows } from '../../duckdb/connection.ts';
import { labelTable } from '../../purchase-store/layout.ts';
import type { StoreCatalogs } from '../../purchase-store/relations.ts';

/**
 * Caches the values of label keys. Joining ten dictionaries to a page takes DuckDB several
 * times as long as reading the page, and pages repeat the same few values. The values of the base
 * are cached for all generations that share it: the first page of a generation took twice as long
 * when each had a cache of its own.
 */
export type LabelCache = {
  /** Returns the values of these keys, and queries the dictionaries for keys that are not cached. */
  lookUp(connection: DuckDBConnection, keys: LabelKeys): Promise<LabelValues>;
};

export type LabelKeys = ReadonlyMap<PurchaseLabel, ReadonlySet<number>>;
type LabelValues = (label: PurchaseLabel, key: number) => string;

/** The values of some keys of one file, which never change. */
export type FileLabels = LRUCache<string, string>;

const maxCachedLabels = 200_000;

// `max` would allocate memory for all entries at once.
export const createFileLabels = (): FileLabels =>
  new LRUCache({ maxSize: maxCachedLabels, sizeCalculation: () => 1 });

export function createLabelCache(catalogs: StoreCatalogs, ofBase: FileLabels): LabelCache {
  const ofDelta = createFileLabels();
  return {
    async lookUp(connection, keys) {
      // Concurrent queries may evict cached values, so each result has a map of its own.
      const values = new Map<string, string>();
      const statements = [...keys].flatMap(([label, wanted]) => {
        const missing = [...wanted].filter((key) => {
          const name = `${label} ${key}`;
          const value = ofBase.get(name) ?? ofDelta.get(name);
          if (value !== undefined) values.set(name, value);
          return value === undefined;
        });
        return missing.length === 0 ? [] : [lookUpStatement(catalogs, label, missing)];
      });
      const rows =
        statements.length === 0 ? [] : await queryRows(connection, join(statements, ' union all '));
      for (const [label, key, value, file] of rows) {
        const cache = file === 'base' ? ofBase : ofDelta;
        cache.set(`${label} ${key}`, value as string);
        values.set(`${label} ${key}`, value as string);
      }
      return (label, key) => {
        const value = values.get(`${label} ${key}`);
        if (value === undefined) throw new Error(`the dictionary of ${label} has no key ${key}`);
        return value;
      };
    },
  };
}

function lookUpStatement(catalogs: StoreCatalogs, label: PurchaseLabel, keys: readonly number[]) {
  const list = join(keys.map((key) => sql`${key}::integer`));
  const entriesOf = (file: keyof StoreCatalogs) => sql`
    select ${label}::varchar, key, value, ${file}::varchar
    from ${raw(catalogs[file])}.${raw(labelTable(label))} where key in (${list})`;
  return sql`${entriesOf('base')} union all ${entriesOf('delta')}`;
}
