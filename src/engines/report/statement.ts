import sql, { empty, join, raw, type Sql } from 'sql-template-tag';
import type { OptionalAmount, ReportMeasure } from '../../domain/purchase-report.ts';
import { optionalAmounts } from '../../domain/purchase-report.ts';

/** How SQL of an engine differs from that of others. */
export type Dialect = {
  /** The column of a customer. */
  readonly customer: string;
  /** An integer that holds the sum of all cents. */
  readonly wide: (integer: Sql) => Sql;
  /** The exact sum of a column of cents; null without any. */
  readonly sum: (column: Sql) => Sql;
  /** The quotient of two integers that are not negative, rounded down. */
  readonly quotient: (dividend: Sql, divisor: Sql) => Sql;
  /** Text in the order of its bytes. */
  readonly inByteOrder: (text: Sql) => Sql;
};

/** A dimension as SQL. */
export type DimensionSql = {
  /** The key of a purchase. */
  readonly key: Sql;
  /** Turns a key into the value by which rows of both periods are matched. */
  readonly match?: (key: Sql) => Sql;
  /** What rows show instead of the matched value: a column of a joined table. */
  readonly shown?: (matched: Sql) => { readonly join: Sql; readonly value: Sql };
  readonly isText?: boolean;
  /** Each row then has one customer. */
  readonly isCustomer?: boolean;
};

/** Some matching purchases. Sums of all parts are those of the matching purchases. */
export type Part = {
  readonly sign: 1 | -1;
  /** A table of SQL with the columns of a purchase, and `is_first` if a report needs it. */
  readonly purchases: Sql;
  readonly condition: Sql;
};

/** The matching purchases of one of the two periods. No customer is in two parts of the same sign. */
export type Side = {
  readonly parts: readonly Part[];
  readonly dimensions: readonly DimensionSql[];
};

/** The sums that a statement computes besides the purchases and their revenue. */
export type Sums = {
  readonly customers: boolean;
  readonly newCustomers: boolean;
  readonly returningCustomers: boolean;
  readonly amounts: readonly OptionalAmount[];
};

export const sumsOf = (measures: readonly ReportMeasure[]): Sums => ({
  customers: measures.includes('customer_count'),
  newCustomers: measures.includes('new_customer_count'),
  returningCustomers: measures.includes('returning_customer_count'),
  amounts: optionalAmounts.filter((amount) => measures.includes(amount)),
});

const columnsOf = ({ customers, newCustomers, returningCustomers, amounts }: Sums): string[] => [
  'purchase_count',
  'revenue_in_cents',
  ...(customers ? ['customer_count'] : []),
  ...(newCustomers ? ['new_customer_count'] : []),
  ...(returningCustomers ? ['returning_customer_count'] : []),
  ...amounts,
];

/** The columns of a row: the dimensions, and for each side the sums. */
export const sumColumns = (sums: Sums, sides: number): string[] =>
  Array.from({ length: sides }, (_, side) =>
    columnsOf(sums).map((column) => columnOfSide(column, side)),
  ).flat();

export const columnOfSide = (column: string, side: number): string => `${column}_${side}`;

export type ReportStatement = {
  readonly sides: readonly Side[];
  readonly sums: Sums;
  /** A measure, or the position of a dimension; null if the order does not matter. */
  readonly order: { readonly by: ReportMeasure | number; readonly isDescending: boolean } | null;
  /** Null for all rows. */
  readonly limit: number | null;
};

/**
 * Selects the dimensions and the sums (`sumColumns`) of each combination of dimensions that has purchases.
 * Without dimensions there is one row.
 */
export function reportStatement(
  dialect: Dialect,
  { sides, sums, order, limit }: ReportStatement,
): Sql {
  const columns = columnsOf(sums);
  const dimensions = sides[0]?.dimensions ?? [];
  const matched = dimensions.map((_, index) => raw(`d${index}`));
  const parts = sides.flatMap((side, index) => partsOf(dialect, side, index, sums));
  // The rows of a single part are already what their sums would be.
  const areSums = parts.length === 1;
  const ofSides = sides.flatMap((_, side) =>
    columns.map((column) => {
      const ofSide = sql`case when side = ${raw(String(side))} then ${raw(column)} else ${dialect.wide(raw('0'))} end`;
      const sum = areSums ? raw(column) : sql`sum(${ofSide})`;
      return sql`${sum} as ${raw(columnOfSide(column, side))}`;
    }),
  );
  const counted = sides.map((_, side) => `${columnOfSide('purchase_count', side)} > 0`);
  const shown = dimensions.map(({ shown }, index) => {
    const value = raw(`report.d${index}`);
    return shown === undefined ? { join: empty, value } : shown(value);
  });
  const values = shown.map(({ value }) => value);
  const orders = dimensions.map(({ isText }, index) => {
    const value = values[index] as Sql;
    return isText === true ? dialect.inByteOrder(value) : value;
  });
  const selected = [...values, ...sumColumns(sums, sides.length).map((column) => raw(column))];
  return sql`
    select ${join(selected)}
    from (
      select * from (
        select ${join([...matched, ...ofSides])}
        from (${join(parts, ' union all ')}) as part
        ${groupBy(areSums ? 0 : dimensions.length)}
      ) as summed
      ${raw(dimensions.length === 0 ? '' : `where ${counted.join(' or ')}`)}
    ) as report
    ${join([empty, ...shown.map(({ join }) => join)], ' ')}
    ${orderBy(dialect, order, orders)}
    ${limit === null ? empty : sql`limit ${raw(String(limit))}`}`;
}

const groupBy = (count: number): Sql =>
  raw(
    count === 0
      ? ''
      : `group by ${Array.from({ length: count }, (_, each) => each + 1).join(', ')}`,
  );

function orderBy(dialect: Dialect, order: ReportStatement['order'], values: readonly Sql[]): Sql {
  if (order === null || values.length === 0) return empty;
  const { by, isDescending } = order;
  const direction = raw(isDescending ? 'desc' : 'asc');
  const first = typeof by === 'number' ? (values[by] as Sql) : measureOf(dialect, by);
  const ties = values.map((value) => sql`${value} asc nulls last`);
  return sql`order by ${join([sql`${first} ${direction} nulls last`, ...ties])}`;
}

function measureOf({ quotient, wide }: Dialect, measure: ReportMeasure): Sql {
  if (measure !== 'average_ticket_in_cents') return raw(columnOfSide(measure, 0));
  const revenue = raw(columnOfSide('revenue_in_cents', 0));
  const count = wide(raw(columnOfSide('purchase_count', 0)));
  const rounded = quotient(
    sql`(${wide(raw('2'))} * abs(${revenue}) + ${count})`,
    sql`(${wide(raw('2'))} * greatest(${count}, ${wide(raw('1'))}))`,
  );
  return sql`(case when ${revenue} < 0 then -1 else 1 end * ${rounded})`;
}

/** The rows of a side: `side`, the matched dimensions, and the sums. */
function partsOf(dialect: Dialect, { parts, dimensions }: Side, side: number, sums: Sums): Sql[] {
  const keys = dimensions.map(({ key }, index) => sql`${key} as k${raw(String(index))}`);
  const matched = dimensions.map(({ match }, index) => {
    const key = raw(`k${index}`);
    return sql`${match?.(key) ?? key} as d${raw(String(index))}`;
  });
  const select = (rows: Sql, values: Readonly<Record<string, Sql>>): Sql => {
    const all = columnsOf(sums).map(
      (column) => sql`${values[column] ?? dialect.wide(raw('0'))} as ${raw(column)}`,
    );
    return sql`select ${join([sql`${raw(String(side))} as side`, ...matched, ...all])} from (${rows}) as grouped`;
  };
  return parts.map(({ sign, purchases, condition }) => {
    const signed = (name: string) => sql`${raw(String(sign))} * ${dialect.wide(raw(name))}`;
    const values: Record<string, Sql> = {
      purchase_count: signed('purchases'),
      revenue_in_cents: signed('cents'),
    };
    const sum = (column: string) => dialect.wide(sql`coalesce(${dialect.sum(raw(column))}, 0)`);
    const added = [
      sql`count(*) as purchases`,
      sql`${sum('purchase_value_in_cents')} as cents`,
      ...sums.amounts.map((amount) => sql`${sum(amount)} as sum_of_${raw(amount)}`),
    ];
    for (const amount of sums.amounts) values[amount] = signed(`sum_of_${amount}`);
    if (sums.newCustomers) {
      added.push(sql`sum(case when is_first then 1 else 0 end) as firsts`);
      values.new_customer_count = signed('coalesce(firsts, 0)');
    }
    const ofOne = dimensions.some(({ isCustomer }) => isCustomer);
    const distinct = raw(dialect.customer);
    if (sums.customers) {
      added.push(sql`${ofOne ? sql`1` : sql`count(distinct ${distinct})`} as customers`);
      values.customer_count = signed('customers');
    }
    if (sums.returningCustomers) {
      added.push(
        sql`count(distinct case when not is_first then ${distinct} end) as returning_ones`,
      );
      values.returning_customer_count = signed('returning_ones');
    }
    const rows = sql`
      select ${join([...keys, ...added])} from ${purchases} where ${condition}
      ${groupBy(keys.length)}`;
    return select(rows, values);
  });
}
