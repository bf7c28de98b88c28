import type { DuckDBConnection } from '@duckdb/node-api';
import { type PurchaseColumn, purchaseColumns, purchaseLabels } from '../../src/domain/purchase.ts';
import {
  columnOf,
  type Dictionary,
  dictionaries,
  firstKey,
  labelTable,
  noLabel,
  storedColumns,
} from '../../src/purchase-store/layout.ts';
import { creationQuarter, quarterHourSql } from '../../src/purchase-store/quarter-hours.ts';

/** Inserts the rows of the temp table `loaded` into a base. Call it within a transaction. */
export async function writeChunk(connection: DuckDBConnection, catalog: string): Promise<void> {
  await connection.run(extendDictionaries(catalog));
  await connection.run(`insert into ${catalog}.purchase ${encodedPurchases(catalog)}`);
}

/**
 * Inserts the loaded labels and customers that no dictionary has, in the order of the loaded
 * rows. Neighbouring rows then have neighbouring keys, so an export of a range of rows reads
 * only a part of a large dictionary.
 */
function extendDictionaries(catalog: string): string {
  const extend = (dictionary: Dictionary) => {
    const { table, value } = dictionary;
    const column = columnOf(dictionary);
    return `
    insert into ${catalog}.${table} (key, ${value})
    select (select coalesce(max(key) + 1, ${firstKey(dictionary)}) from ${catalog}.${table})
        + row_number() over (order by added.place) - 1, added.value
    from (
      select ${column} as value, min(rowid) as place
      from loaded where ${column} is not null group by value
    ) as added
    anti join ${catalog}.${table} as known on known.${value} = added.value;`;
  };
  return dictionaries.map(extend).join('\n');
}

/** The loaded purchases with the columns of the table `purchase`. */
function encodedPurchases(catalog: string): string {
  const columns = purchaseColumns.flatMap((column) =>
    storedColumns(column).map(({ name }) => `${encoded(column, name)} as ${name}`),
  );
  const joins = purchaseLabels.map((label) => {
    const table = labelTable(label);
    return `left join ${catalog}.${table} on ${table}.value = loaded.${label}`;
  });
  return `
    select ${columns.join(', ')}
    from loaded
    join ${catalog}.customer on customer.id = loaded.customer_id
    ${joins.join('\n    ')}
    order by loaded.created_at, loaded.id`;
}

function encoded({ name, kind }: PurchaseColumn, stored: string): string {
  if (stored === 'customer_key') return 'customer.key';
  if (stored === creationQuarter.name) return quarterHourSql(`loaded.${name}`);
  if (kind === 'label') {
    return `case when loaded.${name} is null then ${noLabel} else ${labelTable(name)}.key end`;
  }
  return kind === 'instant' ? `make_timestamp(loaded.${name})` : `loaded.${name}`;
}
