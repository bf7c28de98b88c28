import sql, { raw, type Sql } from 'sql-template-tag';
import {
  type Interval,
  type PeriodCalendar,
  periodKeyAt,
  periodOffsets,
} from '../../domain/period.ts';
import {
  type LabelDimension,
  labelOfDimension,
  type PurchaseFilters,
} from '../../domain/purchase-query.ts';
import type { Currencies, PurchaseCohortsQuery } from '../../domain/purchase-report.ts';
import type { ZoneOffset } from '../../domain/time-zone.ts';
import { isAnyOfTexts } from '../filter-conditions.ts';
import type { CohortSource } from './cohorts.ts';
import { type DimensionSource, dimensionOf, needsFirsts, ofCustomerType } from './dimensions.ts';
import { rangeOfRows } from './report-periods.ts';
import type { ReportRows, ReportSource, SideQuery, TimeBounds } from './source.ts';
import {
  type Dialect,
  type DimensionSql,
  type PurchasePart,
  readsStatement,
  type SumName,
} from './statement.ts';

/** An engine whose purchases have columns named as in Postgres, with the texts of labels. */
export type PlainEngine = {
  readonly dialect: Dialect;
  query(statement: Sql): Promise<ReportRows>;
  timeBounds(filters: PurchaseFilters): Promise<TimeBounds | null>;
  /** These may be wider, if that takes less time. */
  wideBounds(filters: PurchaseFilters): Promise<TimeBounds | null>;
  /** The key of a purchase's period (domain/period.ts). */
  periodKey(interval: Interval, offsets: readonly ZoneOffset[]): Sql;
  /** The whole days or hours of local time since 0001-01-01 of a purchase. */
  localUnits(offsets: readonly ZoneOffset[], unit: 'day' | 'hour'): Sql;
  /** The condition of matching purchases. */
  matching(filters: PurchaseFilters): Sql;
  /** The matching purchases; with `firsts`, each tells whether it is a first one. */
  parts(read: {
    readonly filters: PurchaseFilters;
    readonly sums: readonly SumName[];
    readonly firsts: boolean;
  }): readonly PurchasePart[];
  /** Adds the codes of coupons, as `coupon`: a row for each code of a purchase, or one without a code. */
  withCoupons(purchases: Sql): Sql;
  /** The currencies of any `count` purchases, if they need not be read. */
  currencies(count: bigint): Currencies | undefined;
};

/** Reads reports and cohorts: one version, if the engine's statements see one. */
export function plainSource(engine: PlainEngine): ReportSource & CohortSource {
  const { dialect, query, wideBounds, timeBounds } = engine;
  const source: ReportSource & CohortSource = {
    dialect,
    query,
    bounds: wideBounds,
    async range(calendar, filters) {
      if (filters.customerType !== undefined) return rangeOfRows(source, calendar, filters);
      const bounds = await timeBounds(filters);
      if (bounds === null) return null;
      const { first, last } = bounds;
      return { first: await periodKeyAt(calendar, first), last: await periodKeyAt(calendar, last) };
    },
    hasFewGroups: async () => false,
    requireFewGroups: async () => {},
    async side(side) {
      const { filters, dimensions, sums, only } = side;
      const source = dimensionsOf(engine, side);
      const keys: DimensionSql[] = [];
      for (const dimension of dimensions) keys.push(await dimensionOf(source, dimension, side));
      const all = engine.parts({ filters, sums, firsts: needsFirsts(side) });
      const read = all.map((part) => ofCustomerType(part, filters));
      const parts = dimensions.includes('coupon')
        ? read.map((part) => withCoupons(engine, part))
        : read;
      if (only === undefined) return { dimensions: keys, parts };
      const isWanted = isAnyOfTexts(labelOfDimension(dimensions[0] as LabelDimension), only);
      const narrow = (part: PurchasePart) => ({
        ...part,
        condition: sql`${part.condition} and ${isWanted}`,
      });
      return { dimensions: keys, parts: parts.map(narrow) };
    },
    currencies: async (count) => engine.currencies(count),
    readAll: (reads) => query(readsStatement(dialect, reads)),
    purchases: (cohorts) => cohortPurchases(engine, cohorts),
  };
  return source;
}

/** Of the matching purchases alone: finding codes takes longer than filters. */
const withCoupons = (engine: PlainEngine, part: PurchasePart): PurchasePart => ({
  ...part,
  purchases: sql`(
    ${engine.withCoupons(sql`select * from ${part.purchases} where ${part.condition}`)}
  ) as purchase`,
  condition: raw('true'),
});

async function cohortPurchases(
  engine: PlainEngine,
  { filters, interval, groupBy, timeZone, weekStart }: PurchaseCohortsQuery,
) {
  const { paymentStatuses, ...others } = filters;
  const ofAll = { filters: { paymentStatuses }, timeZone, weekStart };
  return {
    parts: engine.parts({ filters: { paymentStatuses }, sums: [], firsts: true }),
    isWon: engine.matching(others),
    period: await dimensionsOf(engine, ofAll).period(interval),
    group: groupBy === undefined ? null : label(labelOfDimension(groupBy)),
    currency: label('currency'),
  };
}

const label = (name: string): DimensionSql => ({ key: raw(name), isText: true });

function dimensionsOf(
  { dialect, wideBounds, periodKey, localUnits }: PlainEngine,
  { filters, timeZone, weekStart }: Pick<SideQuery, 'filters' | 'timeZone' | 'weekStart'>,
): DimensionSource {
  const offsetsOf = async (calendar: PeriodCalendar) => {
    const bounds = await wideBounds(filters);
    return bounds === null ? [] : await periodOffsets(calendar, bounds.first, bounds.last);
  };
  return {
    period: async (interval) => ({
      key: periodKey(interval, await offsetsOf({ interval, timeZone, weekStart })),
    }),
    localUnits: async (unit) => localUnits(await offsetsOf({ interval: 'day', timeZone }), unit),
    label,
    quotient: dialect.quotient,
    coupon: () => label('coupon'),
    customer: { key: raw('customer_id') },
  };
}
