import sql, { empty, join, raw, type Sql } from 'sql-template-tag';
import {
  type OptionalAmount,
  optionalAmounts,
  type Quantile,
  quantiles,
  quantileTenths,
  type ReportMeasure,
} from '../../domain/purchase-report.ts';

/** How SQL of an engine differs from that of others. */
export type Dialect = {
  /** The column of a customer. */
  readonly customer: string;
  /** The number of rows. */
  readonly count: Sql;
  /** An integer that holds the sum of all cents. */
  readonly wide: (integer: Sql) => Sql;
  /** The exact sum of a column of cents; null without any. */
  readonly sum: (column: Sql) => Sql;
  /** The smallest value that at least so many tenths of the rows do not exceed; null without rows. */
  readonly quantile: (column: Sql, tenths: number) => Sql;
  /** The quotient of two integers that are not negative, rounded down. */
  readonly quotient: (dividend: Sql, divisor: Sql) => Sql;
  /** Text in the order of its bytes. */
  readonly inByteOrder: (text: Sql) => Sql;
};

/** A dimension as SQL. */
export type DimensionSql = {
  /** The key of a purchase; `isFirst` stands for that of its part. */
  readonly key: Sql | 'isFirst';
  /** Turns a key into the value by which rows of both periods are matched. */
  readonly match?: ((key: Sql) => Sql) | undefined;
  /** What ordered rows show instead of the matched value: a column of a joined table. */
  readonly shown?: (matched: Sql) => { readonly join: Sql; readonly value: Sql };
  /** The texts of matched values, if rows show these. Without it, rows have the texts already. */
  readonly textsOf?: (values: ReadonlySet<number>) => Promise<(value: number) => string | null>;
  readonly isText?: boolean;
  /** Each row then has one customer. */
  readonly isCustomer?: boolean;
};

/** Some matching purchases. The sums of all parts are those of the matching purchases. */
export type PurchasePart = {
  /** A table of SQL with the columns of a purchase, and `sign` if its rows count 1 or -1. */
  readonly purchases: Sql;
  readonly condition: Sql;
  /** Customers can then only be corrected. */
  readonly isSigned?: boolean;
  /** The revenue of its rows, as SQL, if it is not the sum of their cents with their sign. */
  readonly cents?: Sql;
  /** The purchases that another part has, and whose numbers of customers the rows of this part change. */
  readonly corrected?: { readonly purchases: Sql; readonly condition: Sql } | undefined;
  /** The purchase is its customer's first one, as SQL, if a report needs it. */
  readonly isFirst?: Sql;
  /** The number of customers of a group with rows that meet a condition, as SQL, if it is not `count(distinct …)`. */
  readonly countCustomers?: (condition: Sql | null) => Sql | undefined;
  /** That of all purchases of the part. */
  readonly allCustomers?: Sql | undefined;
};

/** The matching purchases of one of the two periods. */
export type Side = {
  readonly parts: readonly PurchasePart[];
  readonly dimensions: readonly DimensionSql[];
};

/** What a statement computes. Others follow from these. */
export const sumNames = [
  'purchase_count',
  'revenue_in_cents',
  'customer_count',
  'new_customer_count',
  'returning_customer_count',
  'repeat_customer_count',
  ...quantiles,
  ...optionalAmounts,
] as const;
export type SumName = (typeof sumNames)[number];

/** The sums of measures, with the number of purchases. */
export const sumsOf = (measures: readonly ReportMeasure[]): readonly SumName[] =>
  sumNames.filter((name) => {
    if (name === 'purchase_count') return true;
    const isOfAverage = name === 'revenue_in_cents' && measures.includes('average_ticket_in_cents');
    return isOfAverage || measures.includes(name);
  });

/** Customers and quantiles of groups do not add up. */
const notAddingUp: readonly SumName[] = [
  'customer_count',
  'returning_customer_count',
  'repeat_customer_count',
  ...quantiles,
];
export const addsUp = (name: SumName): boolean => !notAddingUp.includes(name);

export const isQuantile = (name: SumName): name is Quantile => name in quantileTenths;

export const isAmount = (name: SumName): name is OptionalAmount =>
  (optionalAmounts as readonly string[]).includes(name);

/** Reads the sums of each combination of dimensions that has purchases; without dimensions, of all. */
export type Read = { readonly side: Side; readonly sums: readonly SumName[] };

/** The columns of the rows of `readsStatement`: the position of the read, the dimensions, and the sums. */
export const columnsOf = (reads: readonly Read[]) => ({
  dimensions: Math.max(0, ...reads.map(({ side }) => side.dimensions.length)),
  sums: sumNames.filter((name) => reads.some(({ sums }) => sums.includes(name))),
});
type Columns = ReturnType<typeof columnsOf>;

/**
 * Selects the rows of each read, part by part: the rows of one group have to be added up. A group may have no
 * purchases.
 */
export function readsStatement(dialect: Dialect, reads: readonly Read[]): Sql {
  const columns = columnsOf(reads);
  const selects = reads.flatMap((read, index) =>
    read.side.parts.flatMap((part) => {
      if (!countsRepeatedApart(read)) return selectPart(dialect, read, part, index, columns);
      const sums = read.sums.filter((name) => name !== 'repeat_customer_count');
      const repeated = selectRepeated(dialect, read, part, index, columns);
      if (sums.length === 0) return repeated;
      return [selectPart(dialect, { ...read, sums }, part, index, columns), repeated];
    }),
  );
  return join(selects, ' union all ');
}

/** Whether the rows of `readsStatement` are already what their sums would be. */
export const hasOneRowPerGroup = ([read, another]: readonly Read[]): boolean =>
  read?.side.parts.length === 1 && another === undefined && !countsRepeatedApart(read);

/** No aggregate counts customers with several purchases: a select of its own groups by customers too. */
const countsRepeatedApart = ({ side: { dimensions }, sums }: Read): boolean =>
  sums.includes('repeat_customer_count') &&
  !dimensions.some(({ isCustomer }) => isCustomer === true);

function selectRepeated(
  { customer, count, wide }: Dialect,
  { side: { dimensions } }: Read,
  part: PurchasePart,
  index: number,
  columns: Columns,
): Sql {
  const { keys, named, matched, rest } = keysOf(dimensions, part, columns);
  const groups = keys.map((_, each) => raw(`d${each}`));
  const sums = columns.sums.map((name) => {
    const value = name === 'repeat_customer_count' ? count : wide(sql`null`);
    return sql`${value} as ${raw(name)}`;
  });
  return sql`
    select ${join([raw(`${index} as side`), ...matched, ...rest, ...sums])}
    from (
      select ${join([...named, raw('1 as one')])}
      from ${part.purchases} where ${part.condition}
      group by ${join([...groups, raw(customer)])} having ${count} > 1
    ) as repeated
    ${groups.length === 0 ? empty : sql`group by ${join(groups)}`}`;
}

/** The columns of dimensions: keys of a group, the values by which rows are matched, and those that a read lacks. */
function keysOf(dimensions: readonly DimensionSql[], part: PurchasePart, columns: Columns) {
  const keys = dimensions.map(({ key }) => (key === 'isFirst' ? isFirstOf(part) : key));
  return {
    keys,
    named: keys.map((key, each) => sql`${key} as ${raw(`d${each}`)}`),
    matched: dimensions.map(({ match }, each) => {
      const key = raw(`d${each}`);
      return sql`${match?.(key) ?? key} as ${key}`;
    }),
    rest: Array.from(
      { length: columns.dimensions - keys.length },
      (_, each) => sql`null as ${raw(`d${keys.length + each}`)}`,
    ),
  };
}

function selectPart(
  dialect: Dialect,
  { side: { dimensions }, sums }: Read,
  part: PurchasePart,
  index: number,
  columns: Columns,
): Sql {
  const { keys, named, matched, rest } = keysOf(dimensions, part, columns);
  const isOfAll = keys.length === 0;
  const sources = columns.sums.map((name): Sql => {
    if (!sums.includes(name)) return dialect.wide(sql`null`);
    if (name === 'customer_count' && isOfAll && part.allCustomers !== undefined) {
      return part.allCustomers;
    }
    return sumOf(dialect, part, dimensions, name);
  });
  const values = columns.sums.map((name, each) => sql`${sources[each]} as ${raw(name)}`);
  const position = raw(`${index} as side`);
  const doesNotRead = isOfAll && part.allCustomers !== undefined && sums.length === 1;
  if (doesNotRead && sums[0] === 'customer_count') {
    return sql`select ${join([position, ...rest, ...values])}`;
  }
  const groups = raw(isOfAll ? '' : `group by ${keys.map((_, each) => `d${each}`).join(', ')}`);
  const rows = sql`from ${part.purchases} where ${part.condition} ${groups}`;
  const isCorrection = part.corrected !== undefined && sums.includes('customer_count');
  if (!isCorrection && !dimensions.some(({ match }) => match !== undefined)) {
    return sql`select ${join([position, ...named, ...rest, ...values])} ${rows}`;
  }
  const shown = [position, ...matched, ...rest, ...columns.sums.map((name) => raw(name))];
  const grouped = isCorrection
    ? correctedSums(dialect, part, named, { sums, columns })
    : sql`select ${join([...named, ...values])} ${rows}`;
  return sql`select ${join(shown)} from (${grouped}) as grouped`;
}

/**
 * The sums of rows with a sign by group, and by how many customers they change the group: those of its rows who have
 * purchases there now, less those who had some before. Their other purchases there tell this.
 */
function correctedSums(
  dialect: Dialect,
  part: PurchasePart,
  named: readonly Sql[],
  { sums, columns }: { readonly sums: readonly SumName[]; readonly columns: Columns },
): Sql {
  const { customer, wide } = dialect;
  const { purchases, condition, corrected } = part;
  const keys = join([...named.map((_, each) => raw(`d${each}`)), raw(customer)]);
  const groups = join(named.map((_, each) => raw(`d${each}`)));
  const own = join([...named, raw(customer)]);
  const values = columns.sums.map((name): Sql => {
    switch (sums.includes(name) ? name : null) {
      case 'purchase_count':
        return sql`sum(count) as purchase_count`;
      case 'revenue_in_cents':
        return sql`sum(cents) as revenue_in_cents`;
      case 'customer_count':
        return sql`sum(case when after > 0 then 1 else 0 end - case when before > 0 then 1 else 0 end)
          as customer_count`;
      default:
        return sql`${wide(sql`null`)} as ${raw(name)}`;
    }
  });
  return sql`
    select ${groups}, ${join(values)} from (
      select ${keys}, sum(was) as before, sum(was + sign) as after,
        ${countOf(dialect, part)} as count, ${centsOf(dialect, part, 'purchase_value_in_cents')} as cents
      from (
        select ${own}, 0 as was, sign, purchase_value_in_cents from ${purchases} where ${condition}
        union all
        select ${keys}, 1, 0, 0 from (
          select ${own} from ${corrected?.purchases} where ${corrected?.condition}
        ) as other
        semi join (select ${own} from ${purchases} where ${condition} group by ${keys}) as touched using (${keys})
      ) as row group by ${keys}
    ) as pair group by ${groups}`;
}

function isFirstOf({ isFirst }: PurchasePart): Sql {
  if (isFirst === undefined) throw new Error('a part does not tell first purchases');
  return isFirst;
}

function sumOf(
  dialect: Dialect,
  part: PurchasePart,
  dimensions: readonly DimensionSql[],
  name: SumName,
): Sql {
  if (isQuantile(name)) {
    return dialect.quantile(raw('purchase_value_in_cents'), quantileTenths[name]);
  }
  if (isAmount(name)) return sql`coalesce(${centsOf(dialect, part, name)}, 0)`;
  const atLeast = (purchases: number) =>
    sql`case when ${countOf(dialect, part)} >= ${raw(String(purchases))} then 1 else 0 end`;
  switch (name) {
    case 'purchase_count':
      return countOf(dialect, part);
    case 'revenue_in_cents':
      return part.cents ?? centsOf(dialect, part, 'purchase_value_in_cents');
    case 'new_customer_count':
      return sql`sum(case when ${isFirstOf(part)} then 1 else 0 end)`;
    case 'returning_customer_count':
      return customersOf(dialect, part, sql`not ${isFirstOf(part)}`);
    case 'customer_count': {
      const areOfOne = dimensions.some(({ isCustomer }) => isCustomer === true);
      return areOfOne ? atLeast(1) : customersOf(dialect, part, null);
    }
    case 'repeat_customer_count':
      return atLeast(2);
  }
}

const countOf = ({ count }: Dialect, { isSigned = false }: PurchasePart): Sql =>
  isSigned ? sql`sum(sign)` : count;

/** The sum of a column of cents. The opposite of -2^63 exceeds 64 bits, and wider products take twice as long. */
function centsOf({ sum }: Dialect, { isSigned = false }: PurchasePart, column: string): Sql {
  if (!isSigned) return sum(raw(column));
  const ofSign = (sign: string) => sum(raw(`case when sign ${sign} 0 then ${column} end`));
  return sql`(coalesce(${ofSign('>')}, 0) - coalesce(${ofSign('<')}, 0))`;
}

/** The number of customers with rows that meet a condition. */
export function customersOf({ customer }: Dialect, part: PurchasePart, condition: Sql | null): Sql {
  const key =
    condition === null ? raw(customer) : sql`case when ${condition} then ${raw(customer)} end`;
  return part.countCustomers?.(condition) ?? sql`count(distinct ${key})`;
}
