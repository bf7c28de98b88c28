import {
  type PurchaseColumn,
  type PurchaseLabel,
  purchaseColumns,
  purchaseLabels,
} from '../domain/purchase.ts';
import { creationQuarter } from './quarter-hours.ts';

/**
 * The layout of an organization's DuckDB file. A file of another version is
 * built anew, so any change below needs a new number.
 *
 * Labels and customers stand in the purchase table as small dense integers,
 * each with a dictionary table: grouping, counting and comparing integers whose
 * greatest value is known is what DuckDB does fastest. Rows are ordered by
 * creation; there is no index and no primary key, for zone maps find rows by
 * time and by id, and an index would cost every update.
 */
export const layoutVersion = 4;

/**
 * Stands where a purchase has no value; the keys of values are greater. A NULL would take
 * scans of the column more than twice as long.
 */
export const noLabel = 0;
/** The dictionary key column that stands for a label in the purchase table. */
export const labelKey = (label: string): string => `${label}_key`;
/** The dictionary of a label. */
export const labelTable = (label: string): string => `label_${label}`;

/** What stands in the purchase table as small dense integers, each with a table of its own. */
export type Dictionary = {
  /** A label, or `customer`. */
  readonly name: PurchaseLabel | 'customer';
  /** Of keys and values. */
  readonly table: string;
  /** That table's column of values, and the column of the purchases that holds keys. */
  readonly value: string;
  readonly key: string;
  /** Stands in the purchases where there is no value; null where there always is one. */
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

/** Keys are dense from here on. */
export const firstKey = ({ absent }: Dictionary): number => (absent === null ? 0 : absent + 1);

/** The purchase table's columns for one column of a purchase. */
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
 * Texts of which no two are the same lie as they are: DuckDB would give each row group
 * a dictionary of them, read as a whole for a single row, and written at every checkpoint.
 */
function compressionOf({ kind }: PurchaseColumn): string {
  return kind === 'text' ? ` using compression 'uncompressed'` : '';
}

/** DDL for an empty file, attached under the (trusted) name `catalog`. */
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
    -- One row, once the first load is complete: what the rows above show.
    create table ${catalog}.watermark (
      layout_version integer not null,
      organization_id bigint not null,
      -- Which organization of which database: the file answers nobody else.
      source varchar not null,
      -- The source table and its triggers: while they stay the same, the log has all changes.
      fingerprint varchar not null,
      -- The change log has it as long as the database's history includes the snapshot.
      token varchar not null,
      -- The pg_snapshot that the rows were read in; changes it cannot see come next.
      snapshot varchar not null,
      -- When that snapshot was taken, or a moment before.
      as_of timestamp not null
    );
  `;
}
