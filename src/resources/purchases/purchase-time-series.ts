import { z } from 'zod';
import { formatInstant } from '../../domain/instant.ts';
import {
  endOfPeriodAt,
  intervals,
  type PeriodCalendar,
  TooManyPeriodsError,
} from '../../domain/period.ts';
import type { PurchaseTimeSeries } from '../../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import { readPurchaseTimeSeries } from '../../domain/purchase-stats.ts';
import type { ResponseTable } from '../../http/formats/table.ts';
import { ApiError } from '../../http/response/errors.ts';
import { dateTime, named } from '../../http/response/wire.ts';
import { type ResourceRoutes, route } from '../../http/route.ts';
import { readFilters } from './purchase-filters.ts';
import { purchaseTimeSeriesParameters } from './purchase-parameters.ts';
import {
  amountColumns,
  amounts,
  amountsSchema,
  currencyColumnOf,
  currencyColumns,
  currencyOf,
  totals,
  totalsSchema,
} from './purchase-totals.ts';

const periodSchema = z.object({
  starts_at: dateTime(),
  ...amountsSchema,
  is_complete: z.boolean().meta({
    description:
      'An addition: false if the bounds leave out a part of the period, or if it is not over.',
  }),
});

const timeSeriesSchema = named(
  'PurchaseTimeSeries',
  z.object({
    object: z.literal('purchase_timeseries'),
    interval: z.enum(intervals),
    timezone: z.string(),
    ...totalsSchema,
    group_by: z.string().nullable(),
    series: z.array(z.object({ key: z.string().nullable(), periods: z.array(periodSchema) })),
    series_truncated: z.boolean(),
  }),
);

/** A row for each period of each series. */
const timeSeriesTable: ResponseTable<z.output<typeof timeSeriesSchema>> = {
  columns: [
    { name: 'starts_at', kind: 'instant', isWholeSeconds: true, absent: 'never' },
    { name: 'key', kind: 'label', absent: 'null' },
    ...amountColumns(amountsSchema),
    ...currencyColumns,
    { name: 'is_complete', kind: 'boolean', absent: 'never' },
  ],
  read: (response) => ({
    rows: response.series.flatMap(({ key, periods }) =>
      periods.map((period) => ({ ...period, key, ...currencyOf(response) })),
    ),
    hasMore: response.series_truncated,
    currencyColumn: currencyColumnOf(response),
  }),
};

/** An addition to the specification: totals and a ranking by period. */
export const purchaseTimeSeries: ResourceRoutes = () => [
  route({
    url: '/purchases/timeseries',
    summary: 'Totals over purchases by hour, day, week, month, quarter or year',
    description:
      'Without `status`, purchases of every payment status count: for sales, send ' +
      '`status=paid`. Periods are those of `timezone`, by default UTC. A period that is not ' +
      'over, or that a bound cuts, has `is_complete: false`: do not compare it with whole ones. ' +
      'Customers of periods do not add up. If `mixed_currencies` is true, amounts are sums ' +
      'without a unit.',
    isAddition: true,
    path: z.strictObject({}),
    query: purchaseTimeSeriesParameters,
    response: timeSeriesSchema,
    kind: 'snapshot',
    table: timeSeriesTable,
    handle: async (request) => {
      const { query, organizationId, purchases, signal, client } = request;
      const { interval, timezone, week_start: weekStart } = query;
      const { group_by: groupBy, group_limit: groupLimit } = query;
      const timeZone = timezone === 'UTC' ? undefined : timezone;
      const filters = await readFilters(request);
      const seriesQuery = { filters, interval, groupBy, groupLimit, timeZone, weekStart };
      const { result, ...shown } = await readPurchaseTimeSeries(
        purchases,
        organizationId,
        seriesQuery,
        signal,
        client,
      ).catch((error: unknown) => {
        throw error instanceof TooManyPeriodsError ? tooManyPeriods(interval, error) : error;
      });
      const calendar = { interval: result.interval, timeZone, weekStart };
      const isComplete = await completeness(calendar, result, filters, shown.asOf);
      return {
        ...shown,
        changesAt: await endOfPeriodAt(calendar, shown.asOf),
        result: {
          object: 'purchase_timeseries' as const,
          interval: result.interval,
          timezone,
          ...totals(result),
          group_by: groupBy ?? null,
          series: result.series.map(({ key, periods }) => ({
            key,
            periods: periods.map(({ startsAt, customerCount, ...sums }) => ({
              starts_at: formatInstant(startsAt),
              customer_count: customerCount,
              ...amounts(sums),
              is_complete: isComplete(startsAt),
            })),
          })),
          series_truncated: result.seriesTruncated,
        },
      };
    },
  }),
];

/** Whether the filters and the present leave out no part of the period that begins with an instant. */
async function completeness(
  calendar: PeriodCalendar,
  { series }: PurchaseTimeSeries,
  { createdSince, createdUntil }: PurchaseFilters,
  asOf: bigint,
): Promise<(startsAt: bigint) => boolean> {
  const starts = (series[0]?.periods ?? []).map(({ startsAt }) => startsAt);
  const last = starts.at(-1);
  const end = last === undefined ? null : await endOfPeriodAt(calendar, last);
  const ends = new Map(starts.map((start, index) => [start, starts[index + 1] ?? end]));
  const latest = createdUntil === undefined || createdUntil >= asOf ? asOf : createdUntil + 1n;
  return (startsAt) => {
    const isCut = createdSince !== undefined && createdSince > startsAt;
    return !isCut && (ends.get(startsAt) ?? latest + 1n) <= latest;
  };
}

const tooManyPeriods = (interval: string, { count, max }: TooManyPeriodsError): ApiError =>
  new ApiError(
    'validation_error',
    `interval=${interval} divides this time into ${count} periods, more than ${max}. ` +
      'Choose a longer interval, or later created_since and earlier created_until.',
    { param: 'interval' },
  );
