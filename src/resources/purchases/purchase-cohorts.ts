import { z } from 'zod';
import { type CohortTotal, type CohortTotals, cohortTotals } from '../../domain/cohort-totals.ts';
import { formatInstant } from '../../domain/instant.ts';
import { endOfPeriodAt, TooManyPeriodsError } from '../../domain/period.ts';
import { cohortIntervals, maxCohorts, TooManyCohortsError } from '../../domain/purchase-report.ts';
import type { ResponseTable } from '../../http/formats/table.ts';
import { ApiError } from '../../http/response/errors.ts';
import { count, dateTime, named, sum } from '../../http/response/wire.ts';
import { type ResourceRoutes, route } from '../../http/route.ts';
import { readFilters } from './purchase-filters.ts';
import { purchaseCohortsParameters } from './purchase-parameters.ts';
import { currencyColumns, currencyOf, totalsSchema } from './purchase-totals.ts';

const { currency, mixed_currencies } = totalsSchema;

const cohortPeriodSchema = z.object({
  customer_count: count().meta({
    description: 'Distinct customers of the cohort that bought in this period.',
  }),
  purchase_count: count(),
  revenue_in_cents: sum(),
  is_complete: z.boolean().meta({ description: 'Whether the period is over.' }),
});

const totalFields = {
  customer_count: count().meta({ description: 'Customers of these cohorts.' }),
  periods: z
    .array(
      z.object({
        cohort_customer_count: count().meta({
          description: 'Customers of the cohorts for which this period is over.',
        }),
        customer_count: count().meta({ description: 'Those who bought in this period.' }),
        purchase_count: count(),
        revenue_in_cents: sum(),
      }),
    )
    .meta({ description: 'Each counts the cohorts for which the period is over.' }),
};

const cohortsSchema = named(
  'PurchaseCohorts',
  z.object({
    object: z.literal('purchase_cohorts'),
    interval: z.enum(cohortIntervals),
    timezone: z.string(),
    group_by: z.string().nullable(),
    currency,
    mixed_currencies,
    totals: z.object({
      ...totalFields,
      groups: z
        .array(z.object({ key: z.string().nullable(), ...totalFields }))
        .meta({ description: 'With `group_by`, in the order of `key`; null is last.' }),
    }),
    rows: z.array(
      z.object({
        cohort: dateTime().meta({ description: 'The first instant of the period.' }),
        key: z.string().nullable().meta({
          description: 'The value of `group_by` of the first purchases; null without one.',
        }),
        customer_count: count().meta({
          description: 'Customers whose first purchase is in the period.',
        }),
        periods: z.array(cohortPeriodSchema).meta({
          description:
            'The period of the first purchase, the next one, and so on up to the present.',
        }),
      }),
    ),
  }),
);

/** A row for each cohort and period; `period` counts from 0, the period of the first purchase. */
const cohortsTable: ResponseTable<z.output<typeof cohortsSchema>> = {
  columns: [
    { name: 'cohort', kind: 'instant', isWholeSeconds: true, absent: 'never' },
    { name: 'key', kind: 'label', absent: 'null' },
    { name: 'cohort_customer_count', kind: 'integer', absent: 'never' },
    { name: 'period', kind: 'integer', absent: 'never' },
    { name: 'customer_count', kind: 'integer', absent: 'never' },
    { name: 'purchase_count', kind: 'integer', absent: 'never' },
    { name: 'revenue_in_cents', kind: 'integer', absent: 'never' },
    { name: 'is_complete', kind: 'boolean', absent: 'never' },
    ...currencyColumns,
  ],
  read: (response) => ({
    rows: response.rows.flatMap(({ cohort, key, customer_count, periods }) =>
      periods.map((period, index) => ({
        cohort,
        key,
        cohort_customer_count: customer_count,
        period: BigInt(index),
        ...period,
        ...currencyOf(response),
      })),
    ),
    hasMore: false,
  }),
};

/** An addition to the specification: whether customers come back, by the period of their first purchase. */
export const purchaseCohorts: ResourceRoutes = () => [
  route({
    url: '/purchases/cohorts',
    summary: 'Customers by the period of their first purchase, and what they bought since',
    description:
      'Filters other than `status` select first purchases only. ' +
      'Retention is `customer_count` of a period by that of its cohort. Periods with ' +
      '`is_complete: false` are not over. Customers of periods do not add up. ' +
      'A period of `totals` counts the cohorts for which it is over.',
    isAddition: true,
    path: z.strictObject({}),
    query: purchaseCohortsParameters,
    response: cohortsSchema,
    kind: 'snapshot',
    table: cohortsTable,
    handle: async (request) => {
      const { query, organizationId, purchases, signal, client } = request;
      const { interval, timezone, week_start: weekStart, group_by: groupBy, periods } = query;
      const timeZone = timezone === 'UTC' ? undefined : timezone;
      const calendar = { interval, timeZone, weekStart };
      const filters = await readFilters(request);
      const cohortsQuery = { filters, ...calendar, groupBy, periods };
      const { result, ...shown } = await purchases
        .cohorts(organizationId, cohortsQuery, signal, client)
        .catch((error: unknown) => {
          const areTooMany =
            error instanceof TooManyCohortsError || error instanceof TooManyPeriodsError;
          throw areTooMany ? tooMany(groupBy) : error;
        });
      return {
        ...shown,
        changesAt: await endOfPeriodAt(calendar, shown.asOf),
        result: {
          object: 'purchase_cohorts' as const,
          interval,
          timezone,
          group_by: groupBy ?? null,
          currency: result.currency,
          mixed_currencies: result.mixedCurrencies,
          totals: totalsOf(cohortTotals(result.cohorts, groupBy !== undefined)),
          rows: result.cohorts.map(({ startsAt, key, customerCount, periods }) => ({
            cohort: formatInstant(startsAt),
            key,
            customer_count: customerCount,
            periods: periods.map((period) => ({
              customer_count: period.customerCount,
              purchase_count: period.purchaseCount,
              revenue_in_cents: period.revenueInCents,
              is_complete: period.isComplete,
            })),
          })),
        },
      };
    },
  }),
];

const totalsOf = ({ groups, ...all }: CohortTotals) => ({
  ...totalFieldsOf(all),
  groups: groups.map(({ key, ...total }) => ({ key, ...totalFieldsOf(total) })),
});

const totalFieldsOf = ({ customerCount, periods }: CohortTotal) => ({
  customer_count: customerCount,
  periods: periods.map((period) => ({
    cohort_customer_count: period.cohortCustomerCount,
    customer_count: period.customerCount,
    purchase_count: period.purchaseCount,
    revenue_in_cents: period.revenueInCents,
  })),
});

const tooMany = (groupBy: string | undefined): ApiError => {
  const param = groupBy === undefined ? 'interval' : 'group_by';
  const values = groupBy === undefined ? '' : ` and values of ${groupBy}`;
  return new ApiError(
    'validation_error',
    `${param} gives more than ${maxCohorts} cohorts: choose a longer interval, or later created_since ` +
      `and earlier created_until, so that there are fewer periods${values}.`,
    { param },
  );
};
