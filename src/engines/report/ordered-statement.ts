import sql, { empty, join, raw, type Sql } from 'sql-template-tag';
import type { ReportMeasure } from '../../domain/purchase-report.ts';
import {
  columnsOf,
  type Dialect,
  type DimensionSql,
  hasOneRowPerGroup,
  type Read,
  readsStatement,
} from './statement.ts';

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
  const areSums = hasOneRowPerGroup(reads);
  const ofSides = reads.flatMap((_, side) =>
    columns.map((column) => {
      const wide = (value: string) => dialect.wide(raw(value));
      const ofSide = sql`case when side = ${raw(String(side))} then ${wide(column)} else ${wide('0')} end`;
      const sum = areSums ? raw(column) : sql`coalesce(sum(${ofSide}), 0)`;
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
