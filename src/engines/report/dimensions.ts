import sql, { raw, type Sql } from 'sql-template-tag';
import { intervalMonths } from '../../domain/period.ts';
import type { PeriodRows, RowShift } from '../../domain/period-rows.ts';
import type { PurchaseLabel } from '../../domain/purchase.ts';
import { labelOfDimension, type PurchaseFilters } from '../../domain/purchase-query.ts';
import {
  isPeriodDimension,
  type PeriodDimension,
  type ReportDimension,
} from '../../domain/purchase-report.ts';
import type { SideQuery } from './source.ts';
import type { Dialect, DimensionSql, PurchasePart } from './statement.ts';

/** The dimensions of one engine's purchases. */
export type DimensionSource<Dimension extends DimensionSql = DimensionSql> = {
  /** The key (domain/period.ts) of the period of a purchase. */
  period(interval: PeriodDimension): Promise<Dimension>;
  /** The whole days or hours of local time since 0001-01-01 of a purchase, as SQL. */
  localUnits(unit: 'day' | 'hour'): Promise<Sql>;
  label(label: PurchaseLabel): Dimension;
  /** The code of a coupon. A purchase has a row for each of its codes. */
  coupon(): Dimension;
  readonly customer: Dimension;
  readonly quotient: Dialect['quotient'];
};

/** A dimension as SQL. A period is the number of its row (domain/period-rows.ts). */
export async function dimensionOf<Dimension extends DimensionSql>(
  source: DimensionSource<Dimension>,
  dimension: ReportDimension,
  { periodRows }: Pick<SideQuery, 'periodRows'>,
): Promise<Dimension | DimensionSql> {
  if (isPeriodDimension(dimension)) return periodOf(source, dimension, periodRows);
  switch (dimension) {
    case 'weekday':
      return { key: sql`(${await source.localUnits('day')} % 7 + 1)` };
    case 'hour_of_day':
      return { key: sql`(${await source.localUnits('hour')} % 24)` };
    case 'customer_type':
      return { key: 'isFirst', match: (key) => sql`(case when ${key} then 0 else 1 end)` };
    case 'coupon':
      return source.coupon();
    case 'customer':
      return { ...source.customer, isCustomer: true };
    default:
      return source.label(labelOfDimension(dimension));
  }
}

async function periodOf<Dimension extends DimensionSql>(
  { period, quotient }: DimensionSource<Dimension>,
  dimension: PeriodDimension,
  rows: PeriodRows | null,
): Promise<Dimension> {
  if (rows === null) return period(dimension);
  if ('shifts' in rows) {
    const read = await period(dimension);
    return { ...read, match: (key: Sql) => rowSql(read.match?.(key) ?? key, rows.shifts) };
  }
  // Several months have the same row, and customers of months do not add up: so this is the key itself.
  const { match = (key: Sql) => key, ...read } = await period('month');
  const months = sql`(${match(read.key as Sql)} + ${raw(String(rows.monthsLater))})`;
  const length = raw(
    String(dimension === 'quarter' ? intervalMonths.quarter : intervalMonths.year),
  );
  return { ...read, key: sql`(2 * ${quotient(months, length)})` } as Dimension;
}

function rowSql(key: Sql, shifts: readonly RowShift[]): Sql {
  if (shifts.length === 1) return sql`(2 * ${key} + ${raw(String(shifts[0]?.shift))})`;
  const middle = Math.ceil(shifts.length / 2);
  const until = raw(String(shifts[middle - 1]?.until));
  const [before, after] = [shifts.slice(0, middle), shifts.slice(middle)];
  return sql`case when ${key} < ${until} then ${rowSql(key, before)} else ${rowSql(key, after)} end`;
}

/** The purchases of a part that are of the type that the filters select. */
export function ofCustomerType(
  part: PurchasePart,
  { customerType }: PurchaseFilters,
): PurchasePart {
  if (customerType === undefined) return part;
  const isFirst = part.isFirst ?? sql`false`;
  const isOfType = customerType === 'new' ? isFirst : sql`not ${isFirst}`;
  // It counts customers of all types.
  const { allCustomers: _, ...others } = part;
  return { ...others, condition: sql`${part.condition} and ${isOfType}` };
}

/** Whether a side's parts must tell first purchases. */
export const needsFirsts = ({
  filters,
  sums,
  dimensions,
}: Pick<SideQuery, 'filters' | 'sums' | 'dimensions'>): boolean =>
  filters.customerType !== undefined ||
  sums.includes('new_customer_count') ||
  sums.includes('returning_customer_count') ||
  dimensions.includes('customer_type');
