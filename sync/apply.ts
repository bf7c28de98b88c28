import { type DuckDBConnection, DuckDBTimestampValue } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { type PurchaseColumn, purchaseColumns, purchaseLabels } from '../src/domain/purchase.ts';
import { queryRows } from '../src/engines/duckdb/connection.ts';
import { labelTable, layoutVersion, storedColumns } from '../src/engines/duckdb/layout.ts';

/** What the rows of a file show; written with them, in the same transaction. */
export type Watermark = {
  readonly organizationId: bigint;
  readonly systemIdentifier: string;
  readonly snapshot: string;
  readonly asOf: bigint;
};

/** Appends the staged purchases to a file that holds none of them yet. */
export async function appendStaged(connection: DuckDBConnection, catalog: string): Promise<void> {
  await inTransaction(connection, async () => {
    await connection.run(extendDictionaries(catalog));
    await connection.run(`insert into ${catalog}.purchase ${encodedPurchases(catalog)}`);
  });
}

/**
 * Brings the file to the staged state: removes, updates in place, appends, and
 * moves the watermark, all or nothing.
 */
export async function applyStaged(
  connection: DuckDBConnection,
  catalog: string,
  watermark: Watermark,
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
    await writeWatermark(connection, catalog, watermark);
  });
  await connection.run('drop table encoded');
}

/** Declares a first load complete. */
export async function completeLoad(
  connection: DuckDBConnection,
  catalog: string,
  watermark: Watermark,
): Promise<void> {
  await inTransaction(connection, () => writeWatermark(connection, catalog, watermark));
}

/** Null where the first load was not completed, or by a version with another layout. */
export async function readWatermark(
  connection: DuckDBConnection,
  catalog: string,
): Promise<Watermark | null> {
  const [row] = await queryRows(
    connection,
    sql`
      select organization_id, system_identifier, snapshot, epoch_us(as_of)
      from ${raw(catalog)}.watermark where layout_version = ${layoutVersion}`,
  );
  if (row === undefined) return null;
  const [organizationId, systemIdentifier, snapshot, asOf] = row as [
    bigint,
    string,
    string,
    bigint,
  ];
  return { organizationId, systemIdentifier, snapshot, asOf };
}

async function writeWatermark(
  connection: DuckDBConnection,
  catalog: string,
  { organizationId, systemIdentifier, snapshot, asOf }: Watermark,
): Promise<void> {
  await connection.run(`delete from ${catalog}.watermark`);
  await queryRows(
    connection,
    sql`
      insert into ${raw(catalog)}.watermark
        (layout_version, organization_id, system_identifier, snapshot, as_of)
      values (${layoutVersion}, ${organizationId}, ${systemIdentifier}, ${snapshot},
        ${new DuckDBTimestampValue(asOf)})`,
  );
}

async function inTransaction(
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

/** Gives every staged label and customer that has no key yet the next ones. */
function extendDictionaries(catalog: string): string {
  const extend = (table: string, value: string, column: string) => `
    insert into ${catalog}.${table} (key, ${value})
    select (select coalesce(max(key) + 1, 0) from ${catalog}.${table})
        + row_number() over () - 1, staged.value
    from (select distinct ${column} as value from staging where ${column} is not null) as staged
    anti join ${catalog}.${table} as known on known.${value} = staged.value;`;
  return [
    extend('customer', 'id', 'customer_id'),
    ...purchaseLabels.map((label) => extend(labelTable(label), 'value', label)),
  ].join('\n');
}

/** The staged purchases as the purchase table stores them. */
function encodedPurchases(catalog: string): string {
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
  if (kind === 'label') return `${labelTable(name)}.key`;
  return kind === 'instant' ? `make_timestamp(staging.${name})` : `staging.${name}`;
}

const assignments = purchaseColumns
  .flatMap(storedColumns)
  .filter(({ name }) => name !== 'id')
  .map(({ name }) => `${name} = encoded.${name}`)
  .join(', ');
