import sql, { join, raw, type Sql } from 'sql-template-tag';
import type { DuckDBRow } from '../../src/duckdb/connection.ts';
import { dictionaries } from '../../src/purchase-store/layout.ts';
import {
  currentPurchases,
  dictionaryEntries,
  type StoreCatalogs,
} from '../../src/purchase-store/relations.ts';

/** The damage of one dictionary of a file. Only a rebuild repairs dictionaries. */
export type DictionaryDamage = {
  /** A label, or `customer`. */
  readonly dictionary: string;
  /** Entries with the key of another entry. */
  readonly repeatedKeys: number;
  readonly repeatedValues: number;
  /** Purchases with a key that the dictionary lacks. */
  readonly danglingPurchases: number;
};

/** Finds dictionaries with repeated keys or values, or without the key of a purchase. */
export async function findDictionaryDamage(
  query: (statement: Sql) => Promise<DuckDBRow[]>,
  catalogs: StoreCatalogs,
): Promise<DictionaryDamage[]> {
  const inspections = dictionaries.map((dictionary) => {
    const { name, ...names } = dictionary;
    const entries = dictionaryEntries(catalogs, dictionary);
    const key = raw(`purchase.${names.key}`);
    return sql`
      select ${name}::varchar,
        (select count(*) - count(distinct key) from ${entries}),
        (select count(*) - count(distinct ${raw(names.value)}) from ${entries}),
        (
          select count(*) from ${currentPurchases(catalogs)} as purchase
          anti join ${entries} as known on known.key = ${key}
          where ${names.absent === null ? sql`true` : sql`${key} <> ${names.absent}::integer`}
        )`;
  });
  const found = await query(join(inspections, ' union all '));
  return found
    .map(([dictionary, ...counts]) => {
      const [repeatedKeys = 0, repeatedValues = 0, danglingPurchases = 0] = counts.map(Number);
      return { dictionary: String(dictionary), repeatedKeys, repeatedValues, danglingPurchases };
    })
    .filter((damage) => damage.repeatedKeys + damage.repeatedValues + damage.danglingPurchases > 0);
}
