import sql, { raw, type Sql } from 'sql-template-tag';
import {
  arePeriodsInOrder,
  intervalLengths,
  isOfMonths,
  type LocalCalendar,
  type PeriodCalendar,
  periodOffsets,
} from '../../../domain/period.ts';
import type { PurchaseLabel } from '../../../domain/purchase.ts';
import type { PurchaseFilters } from '../../../domain/purchase-query.ts';
import {
  customerDictionary,
  labelDictionary,
  labelKey,
  noLabel,
} from '../../../purchase-store/format/layout.ts';
import { dictionaryEntries } from '../../../purchase-store/format/relations.ts';
import type { DimensionSource } from '../../report/dimensions.ts';
import type { Dialect, DimensionSql } from '../../report/statement.ts';
import {
  areInQuarterHours,
  firstDayOf,
  hashed,
  localUnits,
  monthsOf,
  unitOf,
} from '../calendar/local-time.ts';
import { joinPeriods } from '../calendar/period-tables.ts';
import { joinCoupons } from '../coupons.ts';
import type { Reading } from '../query-context.ts';
import { purchasesWithin, timeBounds } from '../serving/generation.ts';

export const dialect: Dialect = {
  customer: 'customer_key',
  count: raw('count(*)'),
  wide: (integer) => sql`${integer}::hugeint`,
  sum: (column) => sql`sum(${column})`,
  // A decimal fraction is exact; a float is not.
  quantile: (column, tenths) => sql`quantile_disc(${column}, ${raw(`0.${tenths}`)})`,
  quotient: (dividend, divisor) => sql`(${dividend} // ${divisor})`,
  inByteOrder: (text) => text,
};

export type JoinedDimension = DimensionSql & {
  /** A join of the tables of purchases, which the dimension needs. */
  readonly joined?: Sql;
  /** The period of a purchase begins after a quarter of an hour, as SQL; of periods that consist of quarters. */
  readonly beginsAfter?: (quarter: Sql) => Sql;
};

export const dimensionsOf = (
  reading: Reading,
  { filters, timeZone, weekStart }: LocalCalendar & { readonly filters: PurchaseFilters },
): DimensionSource<JoinedDimension> => ({
  period: (interval) => periodSql(reading, { interval, timeZone, weekStart }, filters),
  async localUnits(unit) {
    const { since, until } = timeBounds(reading.generation.summary, filters);
    const offsets = await periodOffsets({ interval: 'day', timeZone }, since, until);
    return localUnits(offsets, intervalLengths[unit]);
  },
  label: (label) => labelSql(reading, label),
  quotient: dialect.quotient,
  coupon: () => ({ key: raw('coupon'), isText: true, joined: joinCoupons(reading.generation) }),
  customer: {
    key: raw(customerDictionary.key),
    shown: (key) => ({
      join: sql`join ${dictionaryEntries(reading.generation.catalogs, customerDictionary)} as customer
        on customer.key = ${key}`,
      value: raw('customer.id'),
    }),
  },
});

export function labelSql({ connection, generation }: Reading, label: PurchaseLabel): DimensionSql {
  const { catalogs, labels } = generation;
  const entries = dictionaryEntries(catalogs, labelDictionary(label));
  return {
    key: raw(labelKey(label)),
    isText: true,
    shown: (key) => ({
      join: sql`left join ${entries} as of_${raw(label)} on of_${raw(label)}.key = ${key}`,
      value: raw(`of_${label}.value`),
    }),
    async textsOf(keys) {
      const present = new Set([...keys].filter((key) => key !== noLabel));
      const textOf = await labels.lookUp(connection, new Map([[label, present]]));
      return (key) => (key === noLabel ? null : textOf(label, key));
    },
  };
}

/** The key of a purchase's period. */
export async function periodSql(
  { generation: { summary }, context: { periodTables } }: Reading,
  calendar: PeriodCalendar,
  filters: PurchaseFilters,
): Promise<JoinedDimension> {
  const { interval } = calendar;
  const bounds = timeBounds(summary, filters);
  const table = await periodTables.covering(calendar, bounds, purchasesWithin(summary, bounds));
  if (table !== null) {
    const beginsAfter = (quarter: Sql) => sql`${quarter} < period_begin`;
    return { key: raw('period'), joined: joinPeriods(table), beginsAfter };
  }
  const offsets = await periodOffsets(calendar, bounds.since, bounds.until);
  const unit = unitOf(interval);
  const key = hashed(firstDayOf(interval, offsets));
  if (isOfMonths(interval)) return { key, match: (day: Sql) => monthsOf(interval, day) };
  if (!areInQuarterHours(offsets) || !arePeriodsInOrder(interval, offsets)) return { key };
  return { key, beginsAfter: (quarter) => sql`${localUnits(offsets, unit, quarter)} < ${key}` };
}
