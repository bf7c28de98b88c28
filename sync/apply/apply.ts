import type { DuckDBConnection } from '@duckdb/node-api';
import { type PurchaseColumn, purchaseColumns, purchaseLabels } from '../../src/domain/purchase.ts';
import {
  customerDictionary,
  type Dictionary,
  firstKey,
  labelDictionary,
  labelTable,
  noLabel,
  storedColumns,
} from '../../src/purchase-store/layout.ts';
import { creationQuarter, quarterHourSql } from '../../src/purchase-store/quarter-hours.ts';
import type { PurchaseFile } from '../files/purchase-file.ts';

/** Appends the staged purchases to a file that holds none of them yet, and runs `note` with it. */
export async function appendStaged(
  { connection, catalog }: PurchaseFile,
  note: () => Promise<void>,
): Promise<void> {
  await inTransaction(connection, async () => {
    await connection.run(extendDictionaries(catalog));
    await connection.run(`insert into ${catalog}.purchase ${encodedPurchases(catalog)}`);
    await note();
  });
}

/**
 * Brings the file to the staged state: removes, updates in place and appends, and runs
 * `note` with it, all or nothing.
 */
export async function applyStaged(
  { connection, catalog }: PurchaseFile,
  note: () => Promise<void>,
): Promise<void> {
  await inTransaction(connection, async () => {
    await connection.run(extendDictionaries(catalog));
    await connection.run(`create or replace temp table encoded as ${encodedPurchases(catalog)}`);
    await connection.run(
      `delete from ${catalog}.purchase where id in (select id from staging where not present)`,
    );
    await connection.run(`
      update ${catalog}.purchase set ${assignments}
      from encoded where purchase.id = encoded.id`);
    // UPDATE … FROM and then INSERT: MERGE INTO was measured a hundred times slower.
    await connection.run(`
      insert into ${catalog}.purchase
      select encoded.* from encoded
      anti join ${catalog}.purchase on purchase.id = encoded.id
      order by encoded.created_at, encoded.id`);
    await note();
  });
  await connection.run('drop table encoded');
}

/**
 * Brings a file whose load has come to its end to the staged state, and runs `note` with
 * it. What changed while the load went on may be in the file twice or not at all:
 * it is not updated but replaced.
 */
export async function replaceStaged(
  { connection, catalog }: PurchaseFile,
  note: () => Promise<void>,
): Promise<void> {
  await inTransaction(connection, async () => {
    await connection.run(extendDictionaries(catalog));
    await connection.run(`delete from ${catalog}.purchase where id in (select id from staging)`);
    await connection.run(`insert into ${catalog}.purchase ${encodedPurchases(catalog)}`);
    await note();
  });
}

export async function inTransaction(
  connection: DuckDBConnection,
  work: () => Promise<void>,
): Promise<void> {
  await connection.run('begin');
  try {
    await work();
    await connection.run('commit');
  } catch (error) {
    // A failed commit has already rolled back; then there is nothing to undo.
    await connection.run('rollback').catch(() => {});
    throw error;
  }
}

/**
 * Gives every staged label and customer that has no key yet the next ones, in the order of
 * the staged rows. Rows that lie together then have keys that lie together: an export of
 * a range of rows reads a part of a large dictionary.
 */
export function extendDictionaries(catalog: string): string {
  const extend = (dictionary: Dictionary, column: string) => {
    const { table, value } = dictionary;
    return `
    insert into ${catalog}.${table} (key, ${value})
    select (select coalesce(max(key) + 1, ${firstKey(dictionary)}) from ${catalog}.${table})
        + row_number() over (order by staged.place) - 1, staged.value
    from (
      select ${column} as value, min(rowid) as place
      from staging where ${column} is not null group by value
    ) as staged
    anti join ${catalog}.${table} as known on known.${value} = staged.value;`;
  };
  return [
    extend(customerDictionary, 'customer_id'),
    ...purchaseLabels.map((label) => extend(labelDictionary(label), label)),
  ].join('\n');
}

/** The staged purchases as the purchase table stores them. */
export function encodedPurchases(catalog: string): string {
  const columns = purchaseColumns.flatMap((column) =>
    storedColumns(column).map(({ name }) => `${encoded(column, name)} as ${name}`),
  );
  const joins = purchaseLabels.map((label) => {
    const table = labelTable(label);
    return `left join ${catalog}.${table} on ${table}.value = staging.${label}`;
  });
  return `
    select ${columns.join(', ')}
    from staging
    join ${catalog}.customer on customer.id = staging.customer_id
    ${joins.join('\n    ')}
    where present
    order by staging.created_at, staging.id`;
}

function encoded({ name, kind }: PurchaseColumn, stored: string): string {
  if (stored === 'customer_key') return 'customer.key';
  if (stored === creationQuarter.name) return quarterHourSql(`staging.${name}`);
  if (kind === 'label') {
    return `case when staging.${name} is null then ${noLabel} else ${labelTable(name)}.key end`;
  }
  return kind === 'instant' ? `make_timestamp(staging.${name})` : `staging.${name}`;
}

export const assignments = purchaseColumns
  .flatMap(storedColumns)
  .filter(({ name }) => name !== 'id')
  .map(({ name }) => `${name} = encoded.${name}`)
  .join(', ');
