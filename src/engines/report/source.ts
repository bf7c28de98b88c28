import type { Sql } from 'sql-template-tag';
import type { LocalCalendar, PeriodCalendar, PeriodRange } from '../../domain/period.ts';
import type { PeriodRows } from '../../domain/period-rows.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import type { Currencies, ReportDimension } from '../../domain/purchase-report.ts';
import type { Dialect, Read, Side, SumName } from './statement.ts';

/** How a side's purchases are read. */
export type SideQuery = LocalCalendar & {
  readonly filters: PurchaseFilters;
  readonly dimensions: readonly ReportDimension[];
  /** Of a dimension of time; null if rows are periods of this side alone. */
  readonly periodRows: PeriodRows | null;
  readonly sums: readonly SumName[];
  /** Only purchases with one of these values of the first dimension, a label. */
  readonly only?: readonly (string | null)[] | undefined;
};

export type ReportRows = readonly (readonly unknown[])[];

/** The first and the last instant of purchases; microseconds since 1970. */
export type TimeBounds = { readonly first: bigint; readonly last: bigint };

/** What an engine knows of one version of an organization's purchases. */
export type ReportSource = {
  readonly dialect: Dialect;
  /** No matching purchase is earlier or later; null if there are none. */
  bounds(filters: PurchaseFilters): Promise<TimeBounds | null>;
  /** The first and the last period with matching purchases. */
  range(calendar: PeriodCalendar, filters: PurchaseFilters): Promise<PeriodRange | null>;
  /** Whether the groups of these dimensions are so few that all are read, and put in order in JavaScript. */
  hasFewGroups(
    dimensions: readonly ReportDimension[],
    sides: readonly PurchaseFilters[],
  ): Promise<boolean>;
  /** Rejects with TooManyGroupsError if a report could have too many groups in memory. */
  requireFewGroups(
    query: Pick<SideQuery, 'dimensions' | 'sums'>,
    sides: readonly PurchaseFilters[],
  ): Promise<void>;
  side(query: SideQuery): Promise<Side>;
  /** The currencies of any `count` purchases, if they need not be read. */
  currencies(count: bigint): Promise<Currencies | undefined>;
  /** The rows of `readsStatement`. */
  readAll(reads: readonly Read[]): Promise<ReportRows>;
  query(statement: Sql): Promise<ReportRows>;
};
