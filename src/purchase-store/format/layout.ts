import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import {
  type PurchaseColumn,
  type PurchaseLabel,
  purchaseColumns,
  purchaseLabels,
} from '../../domain/purchase.ts';
import { queryRows } from '../../duckdb/connection.ts';
import { previousQuarters } from './previous-purchases.ts';
import { creationQuarter } from './quarter-hours.ts';

/**
 * The layout of an organization's files. The worker rebuilds files of another version, so every
 * change below, in `log.ts`, in `current.ts`, or of the content of a saved delta needs a new number.
 *
 * A base, a DuckDB file, holds purchases in the order of creation. A delta, in DuckDB's memory, holds
 * the signed rows by which the purchases of a later tick differ (relations.ts), and the dictionary entries that
 * the base lacks.
 * Rows have dense integer keys for labels and customers, each with a dictionary table: DuckDB groups,
 * counts and compares small integers fastest. There is no index and no primary key: zone maps find rows
 * by time and by id, and an index would slow down every write.
 */
export const layoutVersion = 9;

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

/** The column of a purchase whose values the dictionary holds. */
export const columnOf = ({ name }: Dictionary): string =>
  name === 'customer' ? 'customer_id' : name;

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

/**
 * The columns that rows of sign -1 have, as an SQL list: no condition, group, sum or place of a
 * purchase uses others, except those of amounts and coupons, which read present rows. Reading 16 distant rows of ten million takes 21 ms, and 37 with all columns;
 * 126 and 241 ms from a base that is not in memory yet.
 */
export const supersededColumns: string = purchaseColumns
  .filter(({ kind, required }) => required || kind === 'label')
  .flatMap(storedColumns)
  .map(({ name }) => name)
  .join(', ');

/** The columns that statistics need, as an SQL list. DuckDB reads those that a statement uses. */
export const countedColumns: string = purchaseColumns
  .filter(({ kind, required }) => required || ['label', 'cents', 'coupons'].includes(kind))
  .flatMap(storedColumns)
  .map(({ name }) => name)
  .join(', ');

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

const purchaseColumnsSql = purchaseColumns
  .flatMap((column) =>
    storedColumns(column).map(
      ({ name, type }) => `${name} ${type}${constraintOf(column)}${compressionOf(column)}`,
    ),
  )
  .join(', ');

const previousColumnsSql = Object.values(previousQuarters)
  .map(({ name, type }) => `${name} ${type} not null`)
  .join(', ');

const dictionaryTable = (catalog: string, { table, value, name }: Dictionary): string =>
  `create table ${catalog}.${table} (key integer not null, ${value} ${name === 'customer' ? 'bigint' : 'varchar'} not null);`;

/** The table with a dictionary's entries in a base or a delta. */
export type Entries = {
  readonly table: string;
  /** The position of the dictionary in a table with the entries of all; null in a table of its own. */
  readonly dictionary: number | null;
};

export const entriesOfBase = (catalog: string, { table }: Dictionary): Entries => ({
  table: `${catalog}.${table}`,
  dictionary: null,
});

/** A delta has one table for all dictionaries: each further table takes 0.8 ms to create and fill. */
export const entriesOfDelta = (catalog: string, dictionary: Dictionary): Entries => ({
  table: `${catalog}.entry`,
  dictionary: positionOf(dictionary),
});

/** The position of a dictionary in `dictionaries`. */
export const positionOf = ({ name }: Dictionary): number =>
  dictionaries.findIndex((each) => each.name === name);

/** The DDL of an empty base, attached as `catalog`. */
export const createBaseLayout = (catalog: string): string => `
  create table ${catalog}.purchase (${purchaseColumnsSql}, ${previousColumnsSql});
  ${dictionaries.map((each) => dictionaryTable(catalog, each)).join('\n')}
  -- One row when the base is complete. No other base ever has this name.
  create table ${catalog}.base (layout_version integer not null, name varchar not null);`;

/** Rejects if the file attached as `catalog` is not the base that is called `name`. */
export async function requireBase(
  connection: DuckDBConnection,
  catalog: string,
  name: string,
): Promise<void> {
  const [row] = await queryRows(
    connection,
    sql`select layout_version, name from ${raw(catalog)}.base`,
  );
  if (row?.[0] === layoutVersion && row[1] === name) return;
  throw new Error(`${name} is another file, or not complete`);
}

/** The customer key of the row of sign 0. */
export const placeholderCustomer = -1;

/** The DDL of an empty delta, attached as `catalog`. */
export const createDeltaLayout = (catalog: string): string => `
  create table ${catalog}.change (
    -- -1: a purchase as the base has it, which was changed or deleted since. It may lack the
    -- columns that are not among supersededColumns.
    -- 1: a purchase that was changed or added, as it is now.
    -- 0: a row that counts for nothing (see encodePlaceholder).
    sign tinyint not null,
    ${purchaseColumnsSql}
  );
  -- The positions of their dictionaries in dictionaries. Customers have an id, labels a value.
  create table ${catalog}.entry (
    dictionary utinyint not null, key integer not null, id bigint, value varchar
  );`;
