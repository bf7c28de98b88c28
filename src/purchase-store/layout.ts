import {
  type PurchaseColumn,
  type PurchaseLabel,
  purchaseColumns,
  purchaseLabels,
} from '../domain/purchase.ts';
import { creationQuarter } from './quarter-hours.ts';

/**
 * The layout of an organization's DuckDB file. The worker rebuilds a file of another version, so
 * every change below needs a new number.
 *
 * The purchase table has dense integer keys for labels and customers, each with a dictionary
 * table: DuckDB groups, counts and compares small integers fastest. Rows are ordered by creation.
 * There is no index and no primary key: zone maps find rows by time and by id, and an index would
 * slow down every update.
 */
export const layoutVersion = 4;

/** The key of a missing value. With NULL instead, scans of the column took more than twice as long. */
export const noLabel = 0;
/** The column of a label's keys in the purchase table. */
export const labelKey = (label: string): string => `${label}_key`;
/** The dictionary table of a label. */
export const labelTable = (label: string): string => `label_${label}`;

/** A table that maps dense integer keys to values. */
export type Dictionary = {
  readonly name: PurchaseLabel | 'customer';
  readonly table: string;
  /** The column of values in the dictionary, and of keys in the purchase table. */
  readonly value: string;
  readonly key: string;
  /** The key of a missing value; null if every purchase has a value. */
  readonly absent: number | null;
};

export const customerDictionary: Dictionary = {
  name: 'customer',
  table: 'customer',
  value: 'id',
  key: 'customer_key',
  absent: null,
};

export const labelDictionary = (label: PurchaseLabel): Dictionary => ({
  name: label,
  table: labelTable(label),
  value: 'value',
  key: labelKey(label),
  absent: noLabel,
});

export const dictionaries: readonly Dictionary[] = [
  customerDictionary,
  ...purchaseLabels.map(labelDictionary),
];

/** The least key of a value. */
export const firstKey = ({ absent }: Dictionary): number => (absent === null ? 0 : absent + 1);

/** The columns of the purchase table that store one column of a purchase. */
export function storedColumns(column: PurchaseColumn): { name: string; type: string }[] {
  switch (column.kind) {
    case 'purchase_id':
    case 'cents':
      return [{ name: column.name, type: 'bigint' }];
    case 'customer_id':
      return [
        { name: column.name, type: 'bigint' },
        { name: 'customer_key', type: 'integer' },
      ];
    case 'instant':
      return [
        { name: column.name, type: 'timestamp' },
        ...(column.name === 'created_at' ? [creationQuarter] : []),
      ];
    case 'text':
    case 'coupons':
      return [{ name: column.name, type: 'varchar' }];
    case 'label':
      return [{ name: labelKey(column.name), type: 'integer' }];
  }
}

function constraintOf({ kind, required }: PurchaseColumn): string {
  if (kind === 'label') return ` not null default ${noLabel}`;
  return required ? ' not null' : '';
}

/**
 * Mostly unique texts are not compressed: DuckDB would store a dictionary for each row group, read
 * it as a whole for a single row, and write it at every checkpoint.
 */
function compressionOf({ kind }: PurchaseColumn): string {
  return kind === 'text' ? ` using compression 'uncompressed'` : '';
}

/** The DDL of an empty file, attached as `catalog`. */
export function createLayout(catalog: string): string {
  const columns = purchaseColumns.flatMap((column) =>
    storedColumns(column).map(
      ({ name, type }) => `${name} ${type}${constraintOf(column)}${compressionOf(column)}`,
    ),
  );
  const labelTables = purchaseLabels.map(
    (label) =>
      `create table ${catalog}.${labelTable(label)} (key integer not null, value varchar not null);`,
  );
  return `
    create table ${catalog}.purchase (${columns.join(', ')});
    create table ${catalog}.customer (key integer not null, id bigint not null);
    ${labelTables.join('\n    ')}
    -- One row after the first load: the snapshot that the rows above show.
    create table ${catalog}.watermark (
      layout_version integer not null,
      organization_id bigint not null,
      -- The organization and its database.
      source varchar not null,
      -- Of the source table and its triggers. While it stays the same, the log has all changes.
      fingerprint varchar not null,
      -- In the change log as long as the database's history includes the snapshot.
      token varchar not null,
      -- The pg_snapshot of the rows. The next run applies the changes that it cannot see.
      snapshot varchar not null,
      -- Not later than the snapshot.
      as_of timestamp not null
    );
  `;
}
