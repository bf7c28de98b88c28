import { grouped } from './grouped.ts';
import { earliestInstant, formatInstant } from './instant.ts';
import { type Interval, intervalLengths, type LocalCalendar, periodKeyAt } from './period.ts';
import { maxPeriodsWithoutGroups } from './period-limit.ts';
import type {
  PurchaseReader,
  PurchaseStats,
  PurchaseTimeSeries,
  PurchaseTotals,
  Versioned,
} from './purchase-engine.ts';
import {
  maxPeriodsOf,
  type PurchaseStatsQuery,
  type PurchaseTimeSeriesQuery,
} from './purchase-query.ts';
import type { PurchaseReport, ReportMeasure, ReportOrder } from './purchase-report.ts';

/** Statistics and time series are reports. */

type Reports = Pick<PurchaseReader, 'report'>;
type Rest = readonly [signal?: AbortSignal | undefined, client?: string | undefined];

const sums = ['purchase_count', 'revenue_in_cents'] as const satisfies ReportMeasure[];
const totals = [...sums, 'customer_count'] as const;
/** Section 2.6. */
const ranking: { readonly orderBy: ReportOrder; readonly thenBy: readonly ReportOrder[] } = {
  orderBy: { by: 'revenue_in_cents', isDescending: true },
  thenBy: [{ by: 'purchase_count', isDescending: true }],
};

export async function readPurchaseStats(
  reports: Reports,
  organizationId: bigint,
  { filters, groupBy, groupLimit, timeZone }: PurchaseStatsQuery,
  ...rest: Rest
): Promise<Versioned<PurchaseStats>> {
  const query = {
    ...{ filters, timeZone, measures: sums, totals, ...ranking, limit: groupLimit },
    groupBy: groupBy === undefined ? [] : [groupBy],
    everyPeriod: false,
    mayHaveManyGroups: true,
    maxPeriods: Number.POSITIVE_INFINITY,
  };
  const { result, ...version } = await reports.report(organizationId, query, ...rest);
  const groups = [];
  for (const { keys, values } of result.rows) {
    const [key = null] = keys;
    const isDay = groupBy === 'day';
    const name = isDay ? await dayAt(key as bigint, { timeZone }) : (key as string | null);
    const [purchaseCount, revenueInCents] = values as [bigint, bigint];
    groups.push({ key: name, purchaseCount, revenueInCents });
  }
  const stats = { ...totalsOf(result), groups, groupsTruncated: result.rowsTruncated };
  return { ...version, result: stats };
}

/** Rejects with TooManyPeriodsError if the periods exceed the maximum. */
export async function readPurchaseTimeSeries(
  reports: Reports,
  organizationId: bigint,
  { filters, interval, groupBy, groupLimit, timeZone, weekStart }: PurchaseTimeSeriesQuery,
  ...rest: Rest
): Promise<Versioned<PurchaseTimeSeries>> {
  const query = {
    ...{ filters, timeZone, weekStart, measures: totals, ...ranking },
    ...(groupBy === undefined
      ? { groupBy: [interval], orderBy: null, thenBy: [], limit: maxPeriodsWithoutGroups + 1 }
      : { groupBy: [groupBy, interval], limit: groupLimit }),
    everyPeriod: true,
    mayHaveManyGroups: true,
    maxPeriods: maxPeriodsOf({ groupBy }),
  };
  const { result, ...version } = await reports.report(organizationId, query, ...rest);
  const series = grouped(result.rows, ({ keys }) =>
    groupBy === undefined ? null : (keys[0] as string | null),
  );
  if (groupBy === undefined && series.size === 0) series.set(null, []);
  const timeSeries = {
    ...totalsOf(result),
    interval: result.groupBy.at(-1) as Interval,
    series: [...series].map(([key, rows]) => ({
      key,
      periods: rows.map(({ keys, values }) => {
        const [purchaseCount, revenueInCents, customerCount] = values as [bigint, bigint, bigint];
        const startsAt = keys.at(-1) as bigint;
        return { startsAt, purchaseCount, customerCount, revenueInCents };
      }),
    })),
    seriesTruncated: groupBy !== undefined && result.rowsTruncated,
  };
  return { ...version, result: timeSeries };
}

function totalsOf({
  totals: { values },
  currency,
  mixedCurrencies,
}: PurchaseReport): PurchaseTotals {
  const [purchaseCount, revenueInCents, customerCount] = values as [bigint, bigint, bigint];
  return { purchaseCount, customerCount, revenueInCents, currency, mixedCurrencies };
}

/** The local date that begins with an instant, as `YYYY-MM-DD`. */
async function dayAt(instant: bigint, { timeZone }: LocalCalendar): Promise<string> {
  const days = await periodKeyAt({ interval: 'day', timeZone }, instant);
  return formatInstant(earliestInstant + BigInt(days) * intervalLengths.day).slice(0, 10);
}
