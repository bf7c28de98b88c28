import { type PurchaseColumn, purchaseColumns } from '../../domain/purchase.ts';

/** Generations of another version are not read. Change it with the tables or the meaning of a column. */
export const clickHouseLayoutVersion = 1;

/**
 * The tables. `purchase` has the rows of each load, `purchase_change` the later changes: for each
 * changed purchase its previous row with sign -1 and its present row with sign 1. Both are sorted
 * like the lists. Rows are only added, so no merge changes a result.
 *
 * `generation` names the rows that queries read: one load, and of each writer the batches up to
 * `last`. One row is inserted at a time, so a generation becomes visible as a whole. A writer is a
 * process of the worker, or what follows a failed insert: rows that such an insert leaves, or that
 * arrive late, are of a batch that no generation names. Batches of a load ascend over all writers.
 * The other columns are the watermark (sync/capture/watermark.ts).
 */
export function createTables(): readonly string[] {
  const columns = purchaseColumns.map((column) => `${column.name} ${typeOf(column)}`).join(', ');
  const settings = 'settings add_minmax_index_for_numeric_columns = 1';
  return [
    `create table if not exists purchase (
      organization_id Int64, load_id String, ${columns},
      index by_id id type bloom_filter, index by_customer customer_id type bloom_filter
    ) engine = MergeTree partition by load_id
    order by (organization_id, created_at, id) ${settings}`,
    `create table if not exists purchase_change (
      organization_id Int64, load_id String, writer String, batch Int64, sign Int8, ${columns}
    ) engine = MergeTree partition by load_id
    order by (organization_id, created_at, id) ${settings}`,
    `create table if not exists generation (
      organization_id Int64, number Int64, layout_version Int32, load_id String,
      batches Array(Tuple(writer String, last Int64)),
      as_of Int64, source String, fingerprint String, token String, snapshot String
    ) engine = MergeTree order by (organization_id, number)`,
  ];
}

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
