import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { to as copyTo } from 'pg-copy-streams';
import sql, { raw } from 'sql-template-tag';
import { type PurchaseColumn, purchaseColumns } from '../../src/domain/purchase.ts';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { type Database, withConnection } from '../../src/postgres/pool.ts';
import { purchaseSelectList } from '../../src/postgres/purchase-select-list.ts';

type ClickHouseTableOptions = {
  readonly organizationId: bigint;
  /** A folder for a temporary file. */
  readonly directory: string;
};

/**
 * Creates the table that suits ClickHouse: sorted like the lists, dictionaries for repeating texts,
 * the minimum and maximum of each granule (which DuckDB stores by default), one part.
 */
export async function loadClickHouse(
  clickhouse: Pick<ClickHouse, 'run'>,
  database: Database,
  { organizationId, directory }: ClickHouseTableOptions,
): Promise<void> {
  const file = join(directory, 'purchases.tsv');
  await copyRows(database, organizationId, file);
  await clickhouse.run(raw(createTable()));
  const names = purchaseColumns.map(({ name }) => name).join(', ');
  await clickhouse.run(sql`
    insert into purchase (${raw(names)})
    select ${raw(purchaseColumns.map(readColumn).join(', '))}
    from file(${file}, TSV, ${raw(`'${purchaseColumns.map(fileColumn).join(', ')}'`)})`);
  await rm(file);
  await clickhouse.run(sql`optimize table purchase final`);
}

/** Writes COPY's text format, which is ClickHouse's TSV. */
async function copyRows(database: Database, organizationId: bigint, file: string): Promise<void> {
  // COPY takes no parameters. A bigint is only digits.
  const rows = copyTo(
    `copy (select ${purchaseSelectList} from purchases where organization_id = ${organizationId}) to stdout`,
  );
  await withConnection(database, (connection) =>
    pipeline(connection.query(rows), createWriteStream(file)),
  );
}

function createTable(): string {
  const columns = purchaseColumns.map((column) => `${column.name} ${typeOf(column)}`);
  return `
    create table purchase (${columns.join(', ')})
    engine = MergeTree order by (created_at, id)
    settings add_minmax_index_for_numeric_columns = 1`;
}

function typeOf({ kind, required }: PurchaseColumn): string {
  const nullable = (type: string) => (required ? type : `Nullable(${type})`);
  switch (kind) {
    case 'purchase_id':
    case 'cents':
      return nullable('Int64');
    case 'customer_id':
      // The ids of the demo data fit, and narrow integers are counted faster.
      return nullable('UInt32');
    case 'instant':
      return nullable(`DateTime64(6, 'UTC')`);
    case 'text':
    case 'coupons':
      return nullable('String');
    case 'label':
      return `LowCardinality(${nullable('String')})`;
  }
}

const fileColumn = ({ name, kind }: PurchaseColumn): string => {
  const isText = kind === 'text' || kind === 'label' || kind === 'coupons';
  return `${name} Nullable(${isText ? 'String' : 'Int64'})`;
};

const readColumn = ({ name, kind, required }: PurchaseColumn): string => {
  const value = required ? `assumeNotNull(${name})` : name;
  return kind === 'instant' ? `fromUnixTimestamp64Micro(${value}, 'UTC')` : value;
};
