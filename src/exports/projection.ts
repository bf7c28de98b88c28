import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { empty, join, raw, type Sql } from 'sql-template-tag';
import { digitsByCurrency, usualDigits } from '../domain/currency.ts';
import { type PurchaseColumn, purchaseColumns, purchaseLabels } from '../domain/purchase.ts';
import type { PurchaseFilters } from '../domain/purchase-query.ts';
import { queryRows } from '../duckdb/connection.ts';
import type { Shortcuts } from '../duckdb/shortcuts.ts';
import { rowsMatching } from '../engines/duckdb/filters.ts';
import { createLabelCache } from '../engines/duckdb/serving/label-cache.ts';
import {
  customerDictionary,
  type Dictionary,
  labelDictionary,
} from '../purchase-store/format/layout.ts';
import {
  currentPurchases,
  dictionaryEntries,
  type StoreCatalogs,
} from '../purchase-store/format/relations.ts';
import { functionOf } from './sql-functions.ts';

export type MatchingPurchases = Awaited<ReturnType<typeof matchingPurchases>>;

/** The matching purchases of attached files: the source of every statement of an export. */
export async function matchingPurchases(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  filters: PurchaseFilters,
  shortcuts: Shortcuts,
) {
  const labels = createLabelCache(catalogs, shortcuts);
  const rows = await rowsMatching(connection, labels, filters);
  const purchases = currentPurchases(catalogs, rows?.matching ?? sql`false`, rows?.ofSuperseded);
  const labelBytes = purchaseLabels.map(
    (label) =>
      sql`select sum(strlen(value)) as bytes from ${dictionaryEntries(catalogs, labelDictionary(label))}`,
  );
  const [row] = await queryRows(
    connection,
    sql`select (select count(*) from ${purchases}),
      (select count(*) from ${dictionaryEntries(catalogs, customerDictionary)}),
      (select coalesce(sum(bytes), 0)::bigint from (${join(labelBytes, ' union all ')}))`,
  );
  const [count, customers, bytes] = row as [bigint, bigint, bigint];
  return {
    catalogs,
    /** A relation with the columns of the layout. */
    purchases,
    count,
    /** Whether the values of labels are too large to be joined: DuckDB keeps several hash tables in memory. */
    hasLongLabels: bytes > shortcuts.maxJoinedLabelBytes,
    /**
     * Whether to encode the id of each customer once, rather than that of each row. A million customers take
     * some 70 MiB in a hash table.
     */
    joinsCustomers: customers <= shortcuts.maxJoinedCustomers && customers <= count,
  };
}

/** The decimal digits of the purchase's currency, in the SQL of `projectPurchases`. */
export const currencyDigits = raw('of_currency.digits');

/** `minorDigits`, in SQL. */
const digitsOf = (currency: Sql): Sql =>
  sql`case ${currency} ${join(
    Object.entries(digitsByCurrency).map(
      ([code, digits]) => sql`when ${code} then ${raw(String(digits))}`,
    ),
    ' ',
  )} else ${raw(String(usualDigits))} end`;

/**
 * The columns of `purchaseTable` as the API shows them, and what follows `from`. `format`
 * returns the SQL of a value in a format; the value may be null. This SQL runs once for each
 * value of a dictionary, not for each row.
 */
export function projectPurchases(
  { catalogs, purchases, joinsCustomers }: MatchingPurchases,
  format: (value: Sql, column: PurchaseColumn, index: number) => Sql,
) {
  const joins: Sql[] = [];
  const columns = purchaseColumns.map((column, index) => {
    const name = raw(column.name);
    const call = functionOf(column.kind);
    const project = (stored: Sql) => {
      const value = call === null ? stored : sql`${raw(call)}(${stored})`;
      return format(value, column, index);
    };
    const dictionary = dictionaryOf(column, joinsCustomers);
    if (dictionary === null) return project(sql`purchase.${name}`);
    const { key, value, absent } = dictionary;
    const isCurrency = column.name === 'currency';
    const digits = (currency: Sql) => (isCurrency ? sql`, ${digitsOf(currency)} as digits` : empty);
    const ofAbsent = sql`union all
      select ${raw(String(absent))}, ${format(absentValue, column, index)}${digits(absentValue)}`;
    joins.push(sql`
      join (
        select key, ${project(raw(value))} as projected${digits(raw(value))} from ${dictionaryEntries(catalogs, dictionary)}
        ${absent === null ? empty : ofAbsent}
      ) as of_${name} on of_${name}.key = purchase.${raw(key)}`);
    return sql`of_${name}.projected`;
  });
  return { columns, from: sql`${purchases} as purchase ${join(joins, ' ')}` };
}

const absentValue = sql`null::varchar`;

function dictionaryOf({ name, kind }: PurchaseColumn, joinsCustomers: boolean): Dictionary | null {
  if (kind === 'customer_id' && joinsCustomers) return customerDictionary;
  return kind === 'label' ? labelDictionary(name) : null;
}
