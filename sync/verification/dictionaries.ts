import sql, { join, raw, type Sql } from 'sql-template-tag';
import { dictionaries } from '../../src/purchase-store/layout.ts';
import {
  currentPurchases,
  dictionaryEntries,
  type StoreCatalogs,
} from '../../src/purchase-store/relations.ts';

/** Selects the names of dictionaries with repeated keys or values, or without the key of a purchase. */
export function damagedDictionaries(catalogs: StoreCatalogs): Sql {
  const inspections = dictionaries.map((dictionary) => {
    const { name, ...names } = dictionary;
    const entries = dictionaryEntries(catalogs, dictionary);
    const key = raw(`purchase.${names.key}`);
    return sql`
      select ${name}::varchar where
        (select count(distinct key) < count(*) or count(distinct ${raw(names.value)}) < count(*)
          from ${entries})
        or exists (
          from ${currentPurchases(catalogs)} as purchase
          anti join ${entries} as known on known.key = ${key}
          where ${names.absent === null ? sql`true` : sql`${key} <> ${names.absent}::integer`}
        )`;
  });
  return join(inspections, ' union all ');
}
