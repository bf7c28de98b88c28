import { raw } from 'sql-template-tag';
import { type PurchaseColumn, purchaseColumns } from '../../domain/purchase.ts';

/** The columns of purchases, as a list in SQL. */
export const purchaseNames = raw(purchaseColumns.map(({ name }) => name).join(', '));

/** Generations of another version are not read. Change it with the tables or the meaning of a column. */
export const clickHouseLayoutVersion = 1;

/**
 * The tables. `purchase` has the rows of each load, `purchase_change` the later changes: for each
 * changed purchase its previous row with sign -1 and its current row with sign 1. Both are sorted
 * like the lists. Rows are only added, so no merge changes a result.
 *
 * `generation` names the rows that queries read: one load, and of each writer the batches up to
 * `last`. One row is inserted at a time, so a generation becomes visible as a whole. Each worker
 * process is a writer. After a failed insert, it becomes a new writer: rows that such an insert
 * leaves, or that arrive late, are of a batch that no generation names. Batches of a load ascend
 * over all writers.
 * `currency` is that of all these rows besides `without_currency`, or null if they may have several.
 * The other columns are the watermark (sync/capture/watermark.ts). The row with the highest number
 * counts: merges remove the others of its organization.
 *
 * `up_to_date` has instants up to which a generation shows all commits. They are later than the
 * generation's own if later commits changed nothing in it.
 *
 * In a cluster, each of these names is a distributed table over replicated tables, one a shard.
 * All rows of a customer of an organization must be on one shard. A changed purchase can have rows
 * on two shards, where each shard subtracts what it has added.
 */
export function createTables(cluster: string | null): readonly string[] {
  const columns = purchaseColumns.map((column) => `${column.name} ${typeOf(column)}`).join(', ');
  const key = 'organization_id Int64, load_id LowCardinality(String)';
  const inOrder = `partition by load_id order by (organization_id, created_at, id)
    settings add_minmax_index_for_numeric_columns = 1`;
  const tables: Readonly<Record<TableName, Table>> = {
    purchase: {
      engine: 'MergeTree',
      columns: `${key}, ${columns},
        index by_id id type bloom_filter, index by_customer customer_id type bloom_filter`,
      clauses: inOrder,
    },
    purchase_change: {
      engine: 'MergeTree',
      columns: `${key}, writer LowCardinality(String), batch Int64, sign Int8, ${columns}`,
      clauses: inOrder,
    },
    generation: {
      engine: 'ReplacingMergeTree(number)',
      columns: `organization_id Int64, number Int64, layout_version Int32, load_id String,
        batches Array(Tuple(writer String, last Int64)), ${currencyColumns.join(', ')},
        as_of Int64, source String, fingerprint String, token String, snapshot String`,
      clauses: 'order by organization_id',
    },
    up_to_date: {
      engine: 'ReplacingMergeTree(as_of)',
      columns: 'organization_id Int64, number Int64, as_of Int64',
      clauses: 'order by organization_id',
    },
  };
  const statements = Object.entries(tables).flatMap(([name, { engine, columns, clauses }]) => {
    if (cluster === null) {
      return [`create table if not exists ${name} (${columns}) engine = ${engine} ${clauses}`];
    }
    const local = storageTable(name as TableName, cluster);
    return [
      `create table if not exists ${local} on cluster ${cluster} (${columns})
        engine = Replicated${engine} ${clauses}`,
      `create table if not exists ${name} on cluster ${cluster} as ${local}
        engine = Distributed(${cluster}, currentDatabase(), ${local}, cityHash64(organization_id))`,
    ];
  });
  return [...statements, ...addColumns(cluster)];
}

const currencyColumns = ['currency LowCardinality(Nullable(String))', 'without_currency Int64'];

/** Adds the columns that tables of an earlier release lack. */
function addColumns(cluster: string | null): readonly string[] {
  const names = [...new Set([storageTable('generation', cluster), 'generation'])];
  const onCluster = cluster === null ? '' : `on cluster ${cluster}`;
  const columns = currencyColumns.map((column) => `add column if not exists ${column}`).join(', ');
  return names.map((name) => `alter table ${name} ${onCluster} ${columns}`);
}

/** The only currency of the rows of a query, or null, and the number of rows without one. */
export const currenciesOfRows = raw(
  'if(min(currency) = max(currency), any(currency), null), countIf(currency is null)',
);

export type TableName = 'purchase' | 'purchase_change' | 'generation' | 'up_to_date';

type Table = { readonly engine: string; readonly columns: string; readonly clauses: string };

/** The table that has the rows on each shard, for statements such as `alter table`. */
export const storageTable = (name: TableName, cluster: string | null): string =>
  cluster === null ? name : `${name}_local`;

/** Instants are microseconds since 1970: ClickHouse's own types begin in 1900. */
function typeOf({ kind, required }: PurchaseColumn): string {
  const nullable = (type: string) => (required ? type : `Nullable(${type})`);
  switch (kind) {
    case 'purchase_id':
    case 'customer_id':
    case 'cents':
    case 'instant':
      return nullable('Int64');
    case 'text':
    case 'coupons':
      return nullable('String');
    case 'label':
      return `LowCardinality(${nullable('String')})`;
  }
}
