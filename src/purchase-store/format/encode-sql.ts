import { type PurchaseColumn, purchaseColumns, purchaseLabels } from '../../domain/purchase.ts';
import {
  columnOf,
  customerDictionary,
  type Dictionary,
  dictionaries,
  type Entries,
  firstKey,
  labelDictionary,
  labelTable,
  noLabel,
  storedColumns,
} from './layout.ts';
import { creationQuarter, quarterHourSql } from './quarter-hours.ts';

/** A table with the columns of `purchaseColumns`, whose instants are microseconds, and the dictionaries that encode it. */
export type EncodedTable = {
  readonly table: string;
  /** All entries of a dictionary, as a table of SQL. */
  readonly entries: (dictionary: Dictionary) => string;
};

/**
 * Inserts missing labels and customers into the tables that `entriesOf` returns, in the order of the
 * rows. Neighbouring rows then have neighbouring keys, so an export of a range of rows reads only
 * a part of a large dictionary.
 */
export function extendDictionaries(
  { table, entries }: EncodedTable,
  entriesOf: (dictionary: Dictionary) => Entries,
): string {
  // No window with an order: two threads in DuckDB 1.5's made DuckDB invalidate its instance.
  const extend = (dictionary: Dictionary) => {
    const { value } = dictionary;
    const column = columnOf(dictionary);
    const known = entries(dictionary);
    const { table: target, dictionary: position } = entriesOf(dictionary);
    return `
      insert into ${target} (${position === null ? '' : 'dictionary, '}key, ${value})
      select ${position === null ? '' : `${position}, `}
        (select coalesce(max(key) + 1, ${firstKey(dictionary)}) from ${known}) + row_number() over () - 1,
        value
      from (
        select added.value from (
          select ${column} as value, min(rowid) as place
          from ${table} where ${column} is not null group by value
        ) as added
        anti join ${known} as known on known.${value} = added.value
        order by added.place
      );`;
  };
  return dictionaries.map(extend).join('\n');
}

/** Selects the rows with the columns of the table `purchase`. The dictionaries have all values. */
export function encodedPurchases(rows: EncodedTable): string {
  const columns = storedAs((column, stored) => encoded(rows.table, column, stored));
  return `select ${columns} ${joinedWithDictionaries(rows)}`;
}

/**
 * Selects only what the table `purchase` has besides the columns of purchases, keys and the quarter of an hour,
 * in the order of the rows. The dictionaries have all values.
 */
export function encodedKeys(rows: EncodedTable): string {
  const columns = storedAs((column, stored) =>
    isDerived(column, stored) ? encoded(rows.table, column, stored) : null,
  );
  return `select ${columns} ${joinedWithDictionaries(rows)} order by ${rows.table}.rowid`;
}

/** Selects the rows with the columns of the table `purchase`. The table `keys` has the result of `encodedKeys`. */
export function purchasesWithKeys({ table }: Pick<EncodedTable, 'table'>, keys: string): string {
  const columns = storedAs((column, stored) =>
    isDerived(column, stored) ? `${keys}.${stored}` : encoded(table, column, stored),
  );
  return `select ${columns} from ${table} positional join ${keys}`;
}

const isDerived = ({ name }: PurchaseColumn, stored: string): boolean => stored !== name;

/** The columns of the table `purchase` as an SQL list, without those for which `sqlOf` returns null. */
const storedAs = (sqlOf: (column: PurchaseColumn, stored: string) => string | null): string =>
  purchaseColumns
    .flatMap((column) =>
      storedColumns(column).flatMap(({ name }) => {
        const value = sqlOf(column, name);
        return value === null ? [] : [`${value} as ${name}`];
      }),
    )
    .join(', ');

function joinedWithDictionaries({ table, entries }: EncodedTable): string {
  const labels = purchaseLabels.map((label) => {
    const name = labelTable(label);
    const known = entries(labelDictionary(label));
    return `left join ${known} as ${name} on ${name}.value = ${table}.${label}`;
  });
  return `
    from ${table}
    join ${entries(customerDictionary)} as customer on customer.id = ${table}.customer_id
    ${labels.join('\n    ')}`;
}

function encoded(table: string, { name, kind }: PurchaseColumn, stored: string): string {
  if (stored === customerDictionary.key) return 'customer.key';
  if (stored === creationQuarter.name) return quarterHourSql(`${table}.${name}`);
  if (kind === 'label') return `coalesce(${labelTable(name)}.key, ${noLabel})`;
  return kind === 'instant' ? `make_timestamp(${table}.${name})` : `${table}.${name}`;
}
