import sql, { raw, type Sql } from 'sql-template-tag';
import type { PurchaseLabel } from '../../domain/purchase.ts';
import { labelOfDimension } from '../../domain/purchase-query.ts';
import {
  isPeriodDimension,
  type PeriodDimension,
  type ReportDimension,
} from '../../domain/purchase-report.ts';
import type { SideQuery } from './report-reader.ts';
import type { DimensionSql } from './statement.ts';

/** The dimensions of one engine's purchases. */
export type DimensionSource<Dimension extends DimensionSql = DimensionSql> = {
  /** The key (domain/period.ts) of the period of a purchase. */
  period(interval: PeriodDimension): Promise<Dimension>;
  /** The whole days or hours of local time since 0001-01-01 of a purchase, as SQL. */
  localUnits(unit: 'day' | 'hour'): Promise<Sql>;
  label(label: PurchaseLabel): Dimension;
  readonly customer: Dimension;
};

/** A dimension as SQL. Periods count from the first one of the side. */
export async function dimensionOf<Dimension extends DimensionSql>(
  source: DimensionSource<Dimension>,
  dimension: ReportDimension,
  { firstPeriod }: Pick<SideQuery, 'firstPeriod'>,
): Promise<Dimension | DimensionSql> {
  if (isPeriodDimension(dimension)) {
    const period = await source.period(dimension);
    const match = (key: Sql) => sql`(${period.match?.(key) ?? key} - ${raw(String(firstPeriod))})`;
    return { ...period, match };
  }
  switch (dimension) {
    case 'weekday':
      return { key: sql`(${await source.localUnits('day')} % 7 + 1)` };
    case 'hour_of_day':
      return { key: sql`(${await source.localUnits('hour')} % 24)` };
    case 'customer_type':
      return { key: raw('is_first'), match: (key) => sql`(case when ${key} then 0 else 1 end)` };
    case 'customer':
      return { ...source.customer, isCustomer: true };
    default:
      return source.label(labelOfDimension(dimension));
  }
}

/** Whether a side's purchases need `is_first`. */
export const needsFirsts = ({ sums, dimensions }: SideQuery): boolean =>
  sums.newCustomers || sums.returningCustomers || dimensions.includes('customer_type');
