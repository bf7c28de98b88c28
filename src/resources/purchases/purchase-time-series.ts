import { z } from 'zod';
import { formatInstant } from '../../domain/instant.ts';
import { type Interval, intervals, TooManyPeriodsError } from '../../domain/period.ts';
import { maxPeriods } from '../../domain/period-limit.ts';
import type { ResponseTable } from '../../http/formats/table.ts';
import { ApiError } from '../../http/response/errors.ts';
import { dateTime, named } from '../../http/response/wire.ts';
import { type ResourceRoutes, route } from '../../http/route.ts';
import { filtersFrom, purchaseTimeSeriesParameters } from './purchase-parameters.ts';
import {
  amountColumns,
  amounts,
  amountsSchema,
  currencyColumns,
  currencyOf,
  totals,
  totalsSchema,
} from './purchase-totals.ts';

const periodSchema = z.object({ starts_at: dateTime(), ...amountsSchema });

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
    { name: 'starts_at', kind: 'instant', absent: 'never' },
    { name: 'key', kind: 'label', absent: 'null' },
    ...amountColumns(amountsSchema),
    ...currencyColumns,
  ],
  read: (response) => ({
    rows: response.series.flatMap(({ key, periods }) =>
      periods.map((period) => ({ ...period, key, ...currencyOf(response) })),
    ),
    hasMore: response.series_truncated,
  }),
};

/** An addition to the specification: totals and a ranking by period. */
export const purchaseTimeSeries: ResourceRoutes = () => [
  route({
    url: '/purchases/timeseries',
    summary: 'Totals over purchases by hour, day, week or month',
    isAddition: true,
    path: z.strictObject({}),
    query: purchaseTimeSeriesParameters,
    response: timeSeriesSchema,
    kind: 'snapshot',
    table: timeSeriesTable,
    handle: async ({ query, organizationId, purchases, signal, client }) => {
      const { interval, timezone, group_by: groupBy, group_limit: groupLimit } = query;
      const timeZone = timezone === 'UTC' ? undefined : timezone;
      const seriesQuery = { filters: filtersFrom(query), interval, groupBy, groupLimit, timeZone };
      const { result, asOf } = await purchases
        .timeSeries(organizationId, seriesQuery, signal, client)
        .catch((error: unknown) => {
          throw error instanceof TooManyPeriodsError ? tooManyPeriods(interval, error) : error;
        });
      return {
        asOf,
        result: {
          object: 'purchase_timeseries' as const,
          interval,
          timezone,
          ...totals(result),
          group_by: groupBy ?? null,
          series: result.series.map(({ key, periods }) => ({
            key,
            periods: periods.map(({ startsAt, customerCount, ...sums }) => ({
              starts_at: formatInstant(startsAt),
              customer_count: customerCount,
              ...amounts(sums),
            })),
          })),
          series_truncated: result.seriesTruncated,
        },
      };
    },
  }),
];

const tooManyPeriods = (interval: Interval, { count }: TooManyPeriodsError): ApiError =>
  new ApiError(
    'validation_error',
    `interval=${interval} divides this time into ${count} periods, more than ${maxPeriods}. ` +
      'Choose a longer interval, or later created_since and earlier created_until.',
    { param: 'interval' },
  );
