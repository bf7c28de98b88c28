import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { join, raw } from 'sql-template-tag';
import { type PurchaseLabel, purchaseLabels } from '../../domain/purchase.ts';
import { queryRows } from './connection.ts';
import { labelTable } from './layout.ts';

/** A file as queries see it: attached under `catalog`, never changing. */
export type Generation = {
  readonly catalog: string;
  readonly labels: LabelCache;
};

/**
 * The values behind label keys, as far as they were asked for. Joining ten
 * dictionaries to a page takes DuckDB several times as long as reading the page
 * does; and pages show the same few values again and again.
 */
export type LabelCache = {
  /** Makes `valueOf` know these keys; asks the file for those it does not know yet. */
  load(connection: DuckDBConnection, keys: ReadonlyMap<PurchaseLabel, Set<number>>): Promise<void>;
  valueOf(label: PurchaseLabel, key: number): string;
};

// Of each label, some megabytes at the very most.
const mostCached = 20_000;

export function createGeneration(catalog: string): Generation {
  return { catalog, labels: createLabelCache(catalog) };
}

function createLabelCache(catalog: string): LabelCache {
  const known = new Map(purchaseLabels.map((label) => [label, new Map<number, string>()]));
  const valuesOf = (label: PurchaseLabel) => known.get(label) as Map<number, string>;

  return {
    async load(connection, keys) {
      const lookups = [...keys].flatMap(([label, wanted]) => {
        const values = valuesOf(label);
        if (values.size > mostCached) values.clear();
        const missing = [...wanted].filter((key) => !values.has(key));
        if (missing.length === 0) return [];
        const list = join(missing.map((key) => sql`${key}::integer`));
        const table = raw(`${catalog}.${labelTable(label)}`);
        return [sql`select ${label}::varchar, key, value from ${table} where key in (${list})`];
      });
      if (lookups.length === 0) return;
      for (const [label, key, value] of await queryRows(connection, join(lookups, ' union all '))) {
        valuesOf(label as PurchaseLabel).set(key as number, value as string);
      }
    },

    valueOf(label, key) {
      const value = valuesOf(label).get(key);
      if (value === undefined) throw new Error(`${labelTable(label)} has no key ${key}`);
      return value;
    },
  };
}
