import sql, { empty, join, raw, type Sql } from 'sql-template-tag';
import {
  type OptionalAmount,
  optionalAmounts,
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
export type Part = {
  /** A table of SQL with the columns of a purchase, and `sign` if its rows count 1 or -1. */
  readonly purchases: Sql;
  readonly condition: Sql;
  /** Customers can then only be corrected. */
  readonly isSigned?: boolean;
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
  readonly parts: readonly Part[];
  readonly dimensions: readonly DimensionSql[];
};

/** What a statement computes. Others follow from these. */
export const sumNames = [
  'purchase_count',
  'revenue_in_cents',
  'customer_count',
  'new_customer_count',
  'returning_customer_count',
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

/** Customers of groups do not add up. */
export const addsUp = (name: SumName): boolean =>
  name !== 'customer_count' && name !== 'returning_customer_count';

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
    read.side.parts.map((part) => selectPart(dialect, read, part, index, columns)),
  );
  return join(selects, ' union all ');
}

function selectPart(
  dialect: Dialect,
  { side: { dimensions }, sums }: Read,
  part: Part,
  index: number,
  columns: Columns,
): Sql {
  const keys = dimensions.map(({ key }) => (key === 'isFirst' ? isFirstOf(part) : key));
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
  const rest = Array.from(
    { length: columns.dimensions - keys.length },
    (_, each) => sql`null as ${raw(`d${keys.length + each}`)}`,
  );
  const doesNotRead = isOfAll && part.allCustomers !== undefined && sums.length === 1;
  if (doesNotRead && sums[0] === 'customer_count') {
    return sql`select ${join([position, ...rest, ...values])}`;
  }
  const named = keys.map((key, each) => sql`${key} as ${raw(`d${each}`)}`);
  const groups = raw(isOfAll ? '' : `group by ${keys.map((_, each) => `d${each}`).join(', ')}`);
  const rows = sql`from ${part.purchases} where ${part.condition} ${groups}`;
  const isCorrection = part.corrected !== undefined && sums.includes('customer_count');
  if (!isCorrection && !dimensions.some(({ match }) => match !== undefined)) {
    return sql`select ${join([position, ...named, ...rest, ...values])} ${rows}`;
  }
  const matched = dimensions.map(({ match }, each) => {
    const key = raw(`d${each}`);
    return sql`${match?.(key) ?? key} as ${key}`;
  });
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
  { customer, wide }: Dialect,
  { purchases, condition, corrected }: Part,
  named: readonly Sql[],
  { sums, columns }: { readonly sums: readonly SumName[]; readonly columns: Columns },
): Sql {
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
      select ${keys}, sum(was) as before, sum(was + sign) as after, sum(sign) as count, sum(cents) as cents
      from (
        select ${own}, 0 as was, sign, sign * ${wide(raw('purchase_value_in_cents'))} as cents
        from ${purchases} where ${condition}
        union all
        select ${keys}, 1, 0, 0 from (
          select ${own} from ${corrected?.purchases} where ${corrected?.condition}
        ) as other
        semi join (select ${own} from ${purchases} where ${condition} group by ${keys}) as touched using (${keys})
      ) as row group by ${keys}
    ) as pair group by ${groups}`;
}

function isFirstOf({ isFirst }: Part): Sql {
  if (isFirst === undefined) throw new Error('a part does not tell first purchases');
  return isFirst;
}

function sumOf(
  dialect: Dialect,
  part: Part,
  dimensions: readonly DimensionSql[],
  name: SumName,
): Sql {
  if (isAmount(name)) return sql`coalesce(${centsOf(dialect, part, name)}, 0)`;
  switch (name) {
    case 'purchase_count':
      return countOf(dialect, part);
    case 'revenue_in_cents':
      return centsOf(dialect, part, 'purchase_value_in_cents');
    case 'new_customer_count':
      return sql`sum(case when ${isFirstOf(part)} then 1 else 0 end)`;
    case 'returning_customer_count':
      return customersOf(dialect, part, sql`not ${isFirstOf(part)}`);
    case 'customer_count': {
      const areOfOne = dimensions.some(({ isCustomer }) => isCustomer === true);
      return areOfOne ? sql`1` : customersOf(dialect, part, null);
    }
  }
}

const countOf = ({ count }: Dialect, { isSigned = false }: Part): Sql =>
  isSigned ? sql`sum(sign)` : count;

/** The sum of a column of cents. The opposite of -2^63 exceeds 64 bits, and wider products take twice as long. */
function centsOf({ sum }: Dialect, { isSigned = false }: Part, column: string): Sql {
  if (!isSigned) return sum(raw(column));
  const ofSign = (sign: string) => sum(raw(`case when sign ${sign} 0 then ${column} end`));
  return sql`(coalesce(${ofSign('>')}, 0) - coalesce(${ofSign('<')}, 0))`;
}

/** The number of customers with rows that meet a condition. */
export function customersOf({ customer }: Dialect, part: Part, condition: Sql | null): Sql {
  const key =
    condition === null ? raw(customer) : sql`case when ${condition} then ${raw(customer)} end`;
  return part.countCustomers?.(condition) ?? sql`count(distinct ${key})`;
}

export type Order = {
  /** A measure, or the position of a dimension. */
  readonly by: ReportMeasure | number;
  readonly isDescending: boolean;
};

/**
 * Selects the dimensions as rows show them, and the sums of each side, of the first combinations that have
 * purchases: in this order, then in that of the dimensions. All reads have the same dimensions and sums.
 */
export function orderedStatement(
  dialect: Dialect,
  reads: readonly Read[],
  orders: readonly Order[] | null,
  limit: number,
): Sql {
  const columns = columnsOf(reads).sums;
  const dimensions = reads[0]?.side.dimensions ?? [];
  const keys = dimensions.map((_, each) => raw(`d${each}`));
  // The rows of a single part are already what their sums would be.
  const areSums = reads.length === 1 && reads[0]?.side.parts.length === 1;
  const ofSides = reads.flatMap((_, side) =>
    columns.map((column) => {
      const wide = (value: string) => dialect.wide(raw(value));
      const ofSide = sql`case when side = ${raw(String(side))} then ${wide(column)} else ${wide('0')} end`;
      const sum = areSums ? raw(column) : sql`sum(${ofSide})`;
      return sql`${sum} as ${raw(columnOfSide(column, side))}`;
    }),
  );
  const counted = reads.map((_, side) => `${columnOfSide('purchase_count', side)} > 0`);
  const shown = dimensions.map(({ shown }, each) => {
    const value = raw(`report.d${each}`);
    return shown === undefined ? { join: empty, value } : shown(value);
  });
  const values = shown.map(({ value }) => value);
  const sums = reads.flatMap((_, side) => columns.map((column) => raw(columnOfSide(column, side))));
  const groups = areSums || keys.length === 0 ? empty : sql`group by ${join(keys)}`;
  return sql`
    select ${join([...values, ...sums])}
    from (
      select * from (
        select ${join([...keys, ...ofSides])}
        from (${readsStatement(dialect, reads)}) as part ${groups}
      ) as summed
      where ${raw(counted.join(' or '))}
    ) as report
    ${join([empty, ...shown.map(({ join }) => join)], ' ')}
    ${orderBy(dialect, orders, dimensions, values)}
    limit ${raw(String(limit))}`;
}

const columnOfSide = (column: string, side: number): string => `${column}_${side}`;

function orderBy(
  dialect: Dialect,
  orders: readonly Order[] | null,
  dimensions: readonly DimensionSql[],
  values: readonly Sql[],
): Sql {
  if (orders === null || values.length === 0) return empty;
  const ordered = values.map((value, each) =>
    dimensions[each]?.isText === true ? dialect.inByteOrder(value) : value,
  );
  const first = orders.map(({ by, isDescending }) => {
    const value = typeof by === 'number' ? (ordered[by] as Sql) : measureOf(dialect, by);
    return sql`${value} ${raw(isDescending ? 'desc' : 'asc')} nulls last`;
  });
  return sql`order by ${join([...first, ...ordered.map((value) => sql`${value} asc nulls last`)])}`;
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
