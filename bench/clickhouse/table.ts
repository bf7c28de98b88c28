import sql, { raw } from 'sql-template-tag';
import { type PurchaseColumn, purchaseColumns } from '../../src/domain/purchase.ts';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';

/** The columns of statistics. */
const columns = purchaseColumns.filter(({ kind }) => kind !== 'text' && kind !== 'coupons');
const names = raw(columns.map(({ name }) => name).join(', '));

/**
 * Creates the table that suits ClickHouse: sorted like the lists, dictionaries for repeating texts,
 * the minimum and maximum of each granule (which DuckDB stores by default), one part.
 */
export async function loadClickHouse(
  clickhouse: Pick<ClickHouse, 'run'>,
  databaseUrl: string,
  organizationId: bigint,
): Promise<void> {
  const { host, pathname, username, password } = new URL(databaseUrl);
  const definitions = columns.map((column) => `${column.name} ${typeOf(column)}`);
  await clickhouse.run(
    raw(`
    create or replace table purchase (${definitions.join(', ')})
    engine = MergeTree order by (created_at, id)
    settings add_minmax_index_for_numeric_columns = 1`),
  );
  await clickhouse.run(sql`
    insert into purchase (${names})
    select ${names}
    from postgresql(${host}, ${pathname.slice(1)}, 'purchases', ${username}, ${password})
    where organization_id = ${organizationId}`);
  await clickhouse.run(sql`optimize table purchase final`);
}

function typeOf({ kind, required }: PurchaseColumn): string {
  const nullable = (type: string) => (required ? type : `Nullable(${type})`);
  if (kind === 'label') return `LowCardinality(${nullable('String')})`;
  if (kind === 'instant') return nullable(`DateTime64(6, 'UTC')`);
  // The ids of the demo data fit, and narrow integers are counted faster.
  return nullable(kind === 'customer_id' ? 'UInt32' : 'Int64');
}
