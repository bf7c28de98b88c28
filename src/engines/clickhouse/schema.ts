import { raw, type Sql } from 'sql-template-tag';
import { type PurchaseColumn, purchaseColumns } from '../../domain/purchase.ts';

export const purchaseNames = raw(purchaseColumns.map(({ name }) => name).join(', '));

/**
 * Change it with the tables or the meaning of a column. The tables' names have it: a release with
 * another version creates its own tables, and reads no others.
 */
const layoutVersion = 3;

export const tableNames = [
  'purchase',
  'purchase_change',
  'purchase_feed',
  'generation',
  'tick',
] as const;
export type TableName = (typeof tableNames)[number];

const nameOf = (name: TableName): string => `${name}_v${layoutVersion}`;

export const table = Object.fromEntries(tableNames.map((name) => [name, raw(nameOf(name))])) as {
  readonly [Name in TableName]: Sql;
};

/** The table that has the rows on each shard, for statements such as `alter table`. */
export const storageTable = (name: TableName, cluster: string | null): string =>
  cluster === null ? nameOf(name) : `${nameOf(name)}_local`;

/** Parts of `purchase_change`. An insert of all organizations may create a part for each of them. */
const changePartitions = 8;

/** Numbers of `purchase_feed` in a partition: a day, because they follow Postgres's clock in microseconds. */
export const feedPartition = 86_400_000_000;

/**
 * The writer of rows that belong to their load: those that a build adds. Their ticks are -1 and 0,
 * or those of the batches that a compaction copies.
 */
export const buildWriter = '';

/**
 * The tables. `purchase` has the rows of each load, `purchase_change` the later changes: for each
 * changed purchase its previous row with sign -1 and its current row with sign 1. Rows of sign 0
 * count for nothing: they have the ids of deleted purchases, by which the worker finds the previous
 * rows. Both tables are sorted like the lists. Rows are only added, so no merge changes a result.
 *
 * `generation` names the load of each organization, and what the load shows if no later tick includes
 * the organization: `tick` and a watermark. `purchases`, `currency` and `without_currency` describe
 * the rows of the load. `currency` is null if they may have several.
 *
 * `tick` is the publication of a worker for all of its organizations. A row of `purchase_change`
 * counts if the tick names its writer, and a tick of this writer that is not earlier.
 *
 * In both, the row with the highest number counts. The numbers of a worker are higher than those of
 * all workers before it (sync/clickhouse/README.md).
 *
 * `purchase_feed` has the ids of changed purchases, in the order of publication. The changes of a load
 * or tick have numbers up to its `changes_until`. Rows with numbers below `changes_since` of any tick
 * may be missing.
 *
 * In a cluster, each of these names is a distributed table over replicated tables, one a shard.
 * All rows of a customer of an organization must be on one shard. A changed purchase can have rows
 * on two shards, where each shard subtracts what it has added.
 */
export function createTables(cluster: string | null): readonly string[] {
  const columns = purchaseColumns.map((column) => `${column.name} ${typeOf(column)}`).join(', ');
  const key = 'organization_id Int64, load_id LowCardinality(String)';
  const inOrder = `order by (organization_id, created_at, id)
    settings add_minmax_index_for_numeric_columns = 1`;
  const watermark = 'as_of Int64, snapshot String, token String';
  const tables: Readonly<Record<TableName, Table>> = {
    purchase: {
      engine: 'MergeTree',
      columns: `${key}, ${columns},
        index by_id id type bloom_filter, index by_customer customer_id type bloom_filter`,
      clauses: `partition by load_id ${inOrder}`,
    },
    purchase_change: {
      engine: 'MergeTree',
      columns: `${key}, writer LowCardinality(String), tick Int64, sign Int8, ${columns}`,
      clauses: `partition by cityHash64(organization_id) % ${changePartitions} ${inOrder}`,
    },
    purchase_feed: {
      engine: 'MergeTree',
      columns: 'organization_id Int64, number Int64, id Int64',
      clauses: `partition by intDiv(number, ${feedPartition})
        order by (organization_id, number, id)`,
    },
    generation: {
      engine: 'ReplacingMergeTree(number)',
      columns: `organization_id Int64, number Int64, load_id String, purchases Int64,
        currency LowCardinality(Nullable(String)), without_currency Int64,
        tick Int64, ${watermark}, fingerprint String, source String, feed String,
        changes_until Int64`,
      clauses: 'order by organization_id',
    },
    tick: {
      engine: 'ReplacingMergeTree(number)',
      columns: `shard_of Int32, shard_number Int32, number Int64, tick Int64, ${watermark},
        fingerprint String, database String, writers Array(Tuple(writer String, last Int64)),
        exceptions Array(Tuple(organization_id Int64, ${watermark})),
        changes_until Int64, changes_since Int64`,
      clauses: 'order by (shard_of, shard_number)',
      shardingKey: 'cityHash64(shard_of, shard_number)',
    },
  };
  return tableNames.flatMap((name) => {
    const { engine, columns, clauses, shardingKey = 'cityHash64(organization_id)' } = tables[name];
    const local = storageTable(name, cluster);
    if (cluster === null) {
      return [`create table if not exists ${local} (${columns}) engine = ${engine} ${clauses}`];
    }
    return [
      `create table if not exists ${local} on cluster ${cluster} (${columns})
        engine = Replicated${engine} ${clauses}`,
      `create table if not exists ${nameOf(name)} on cluster ${cluster} as ${local}
        engine = Distributed(${cluster}, currentDatabase(), ${local}, ${shardingKey})`,
    ];
  });
}

/** The only currency of the rows of a query, or null, and the number of rows without one. */
export const currenciesOfRows = raw(
  'if(min(currency) = max(currency), any(currency), null), countIf(currency is null)',
);

type Table = {
  readonly engine: string;
  readonly columns: string;
  readonly clauses: string;
  /** Of the distributed table. */
  readonly shardingKey?: string;
};

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
