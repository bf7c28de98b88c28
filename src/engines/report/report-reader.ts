import type { Sql } from 'sql-template-tag';
import type { PeriodRows } from '../../domain/compared-periods.ts';
import type { LocalCalendar, PeriodCalendar } from '../../domain/period.ts';
import type { PurchaseTotals } from '../../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import type { ReportDimension } from '../../domain/purchase-report.ts';
import type { PeriodRange } from '../time-series.ts';
import type { Dialect, Side, Sums } from './statement.ts';

/** How a side's purchases are read. */
export type SideQuery = LocalCalendar & {
  readonly filters: PurchaseFilters;
  readonly dimensions: readonly ReportDimension[];
  /** Of a dimension of time. */
  readonly periodRows: PeriodRows;
  readonly sums: Sums;
};

/** What an engine knows of one version of an organization's purchases. */
export type ReportReader = {
  readonly dialect: Dialect;
  /** The number of customers is only needed if `counts.customers`. */
  totals(
    filters: PurchaseFilters,
    counts: { readonly customers: boolean },
  ): Promise<PurchaseTotals>;
  /** No matching purchase is earlier or later; null if there are none. Microseconds since 1970. */
  bounds(
    filters: PurchaseFilters,
  ): Promise<{ readonly first: bigint; readonly last: bigint } | null>;
  /** The first and the last period with matching purchases. */
  range(calendar: PeriodCalendar, filters: PurchaseFilters): Promise<PeriodRange | null>;
  side(query: SideQuery): Promise<Side>;
  query(statement: Sql): Promise<readonly (readonly unknown[])[]>;
};
