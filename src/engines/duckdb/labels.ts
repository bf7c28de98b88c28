import type { DuckDBConnection } from '@duckdb/node-api';
import { LRUCache } from 'lru-cache';
import sql, { join } from 'sql-template-tag';
import type { PurchaseLabel } from '../../domain/purchase.ts';
import { queryRows } from '../../duckdb/connection.ts';
import { labelDictionary } from '../../purchase-store/layout.ts';
import { dictionaryEntries, type StoreCatalogs } from '../../purchase-store/relations.ts';

/**
 * Caches the values of label keys. Joining ten dictionaries to a page takes DuckDB several
 * times as long as reading the page, and pages repeat the same few values.
 */
export type LabelCache = {
  /** Returns the values of these keys, and queries the dictionaries for keys that are not cached. */
  lookUp(connection: DuckDBConnection, keys: LabelKeys): Promise<LabelValues>;
};

export type LabelKeys = ReadonlyMap<PurchaseLabel, ReadonlySet<number>>;
export type LabelValues = (label: PurchaseLabel, key: number) => string;

const maxCachedLabels = 200_000;

export function createLabelCache(catalogs: StoreCatalogs): LabelCache {
  // `max` would allocate memory for all entries at once.
  const cache = new LRUCache<string, string>({
    maxSize: maxCachedLabels,
    sizeCalculation: () => 1,
  });
  return {
    async lookUp(connection, keys) {
      // Concurrent queries may evict cached values, so each result has a map of its own.
      const values = new Map<string, string>();
      const statements = [...keys].flatMap(([label, wanted]) => {
        const missing = [...wanted].filter((key) => {
          const name = `${label} ${key}`;
          const value = cache.get(name);
          if (value !== undefined) values.set(name, value);
          return value === undefined;
        });
        return missing.length === 0 ? [] : [lookUpStatement(catalogs, label, missing)];
      });
      const rows =
        statements.length === 0 ? [] : await queryRows(connection, join(statements, ' union all '));
      for (const [label, key, value] of rows) {
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
  const entries = dictionaryEntries(catalogs, labelDictionary(label));
  return sql`select ${label}::varchar, key, value from ${entries} where key in (${list})`;
}
