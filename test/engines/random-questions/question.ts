import fc from 'fast-check';
import { intervals, weekStarts } from '../../../src/domain/period.ts';
import { paymentStatuses, platforms, trackingLabels } from '../../../src/domain/purchase.ts';
import {
  labelDimensions,
  optionalDimensions,
  seriesDimensions,
  statsDimensions,
} from '../../../src/domain/purchase-query.ts';
import {
  cohortIntervals,
  comparisons,
  isPeriodDimension,
  reportDimensions,
  reportMeasures,
} from '../../../src/domain/purchase-report.ts';
import { awkwardLabels } from '../../support/awkward-purchases.ts';
import { type Moment, moment, momentOfPurchase, zones } from './moments.ts';
import { customerCount } from './shop.ts';

/** A bound that grows by so many quarters of an hour from step to step. */
export type Bound = Moment & {
  readonly growth: number;
  /** The origins of the moment are the instants of purchases. */
  readonly isOfPurchase: boolean;
};

/** Parameters of filters. Bounds and customers depend on the shop. */
export type Filters = {
  readonly since?: Bound;
  readonly until?: Bound;
  /** The position of a customer. */
  readonly customer?: number;
  readonly parameters: Parameters;
};

/** The texts of each parameter. Several are several parameters of this name. */
export type Parameters = Readonly<Record<string, string | readonly string[]>>;

/** The forms of `starting_after`. An opaque cursor has the position that the purchase had. */
export type Form = 'id' | 'opaque';

export type Question =
  | {
      readonly route: 'stats' | 'timeseries' | 'report' | 'cohorts';
      readonly filters: Filters;
      readonly parameters: Readonly<Record<string, string>>;
    }
  | {
      readonly route: 'purchase';
      /** The last purchase of a page, counted back from the last page. */
      readonly back: number;
    }
  | {
      readonly route: 'list';
      readonly filters: Filters;
      readonly limit: number;
      /** The page end after which pages begin, counted back from the last one; undefined: the first page. */
      readonly back: number | undefined;
      /** The cursors of the first page, which is read with each of them. */
      readonly first: readonly Form[];
      /** The cursors of further pages. */
      readonly walk: readonly Form[];
      readonly isOfCustomer: boolean;
    };

/** A value in so many of ten cases, otherwise undefined. */
const inTenths = <Value>(
  tenths: number,
  value: fc.Arbitrary<Value>,
): fc.Arbitrary<Value | undefined> =>
  fc.oneof(
    { weight: 10 - tenths, arbitrary: fc.constant(undefined) },
    { weight: tenths, arbitrary: value },
  );

const label = fc.constantFrom(
  'google',
  'facebook',
  'campaign 7',
  'absent',
  ...awkwardLabels.filter((text) => text !== '' && [...text].length <= 256),
);
const growth = fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.constantFrom(4, 96, 300));
const boundAt = (of: fc.Arbitrary<Moment>, isOfPurchase: boolean) =>
  fc.tuple(of, growth).map(([of, growth]): Bound => ({ ...of, growth, isOfPurchase }));
const bound = fc.oneof(
  { weight: 1, arbitrary: boundAt(moment, false) },
  { weight: 2, arbitrary: boundAt(momentOfPurchase, true) },
);
const list = (values: readonly string[], maxLength = values.length) =>
  fc.subarray([...values], { minLength: 1, maxLength }).map((chosen) => chosen.join(','));

const several = (text: fc.Arbitrary<string>) =>
  fc.oneof(text, fc.uniqueArray(text, { minLength: 1, maxLength: 10 }));

/** `not` of a dimension and a value. */
const excluded = fc.oneof(
  fc
    .tuple(fc.constantFrom(...trackingLabels, 'coupon'), label)
    .map(([name, text]) => `${name}:${text}`),
  fc.constantFrom(
    ...['status:paid', 'status:refunded', 'platform:bling', 'currency:BRL', 'currency:jpy'],
    ...['shipping_status:shipped', 'coupon:FREE', 'coupon:VERÃO10', 'utm_term:campaign 7'],
  ),
);

const filterParameters = fc
  .record(
    {
      platform: list(platforms),
      min_value_in_cents: fc.constantFrom('0', '1', '100', '1000', String(2n ** 62n)),
      max_value_in_cents: fc.constantFrom('0', '99', '100', '1000'),
      currency: several(fc.constantFrom('BRL', 'USD', 'jpy')),
      without: list(optionalDimensions, 2),
      not: several(excluded),
      weekday: list(['1', '2', '3', '4', '5', '6', '7']),
      hour_of_day: list(Array.from({ length: 24 }, (_, hour) => String(hour))),
      coupon: several(fc.constantFrom('VERÃO10', 'FREE', 'verão10', 'code 7', 'null', 'absent')),
      ...Object.fromEntries(trackingLabels.map((name) => [name, several(label)])),
    },
    { requiredKeys: [] },
  )
  // Few purchases match many filters.
  .chain((all) => {
    const entries = Object.entries(all);
    return fc.subarray(entries, { maxLength: Math.min(2, entries.length) }).map(Object.fromEntries);
  });

const status = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom('paid', 'refunded', 'any') },
  { weight: 1, arbitrary: list(paymentStatuses) },
);

/** `sinceTenths` says how often there is a beginning. */
const filtersWith = (sinceTenths: number): fc.Arbitrary<Filters> =>
  fc
    .record({
      since: inTenths(sinceTenths, bound),
      until: inTenths(3, bound),
      customer: inTenths(1, fc.nat({ max: customerCount - 1 })),
      status: inTenths(5, status),
      // First purchases are read from columns without other filters.
      others: inTenths(2, filterParameters),
      timezone: fc.constantFrom(...zones),
    })
    .map(({ status, others, timezone, ...rest }) => ({
      ...rest,
      parameters: {
        ...others,
        ...(status === undefined ? {} : { status }),
        // Another one of the question replaces it.
        ...(/weekday|hour/.test(Object.keys(others ?? {}).join()) ? { timezone } : {}),
      },
    })) as fc.Arbitrary<Filters>;

const unfiltered = fc.constant<Filters>({ parameters: {} });
/** Much of what is read without filters is stored or cached. */
const filters = fc.oneof(
  { weight: 1, arbitrary: unfiltered },
  { weight: 2, arbitrary: filtersWith(6) },
);
/** A comparison needs a beginning. */
const filtersOfReports = filtersWith(7);

const calendar = {
  timezone: fc.constantFrom(...zones),
  week_start: fc.constantFrom(...weekStarts),
};
const some = <Values extends object>(
  values: { [Name in keyof Values]: fc.Arbitrary<Values[Name]> },
) => fc.record(values, { requiredKeys: [] });
const groupLimit = fc.constantFrom('1', '2', '10', '50');

const stats = some({
  group_by: fc.constantFrom(...statsDimensions),
  group_limit: groupLimit,
  timezone: calendar.timezone,
});
const timeSeries = fc
  .tuple(
    fc.oneof(
      { weight: 2, arbitrary: fc.constantFrom(...intervals) },
      { weight: 1, arbitrary: fc.constant('auto' as const) },
    ),
    // Without groups, customers are counted in another way.
    fc.oneof(
      some({ ...calendar }),
      some({
        group_by: fc.constantFrom(...seriesDimensions),
        group_limit: groupLimit,
        ...calendar,
      }),
    ),
  )
  .map(([interval, others]) => ({ interval, ...others }));
const cohorts = some({
  interval: fc.constantFrom(...cohortIntervals),
  group_by: fc.constantFrom(...labelDimensions),
  periods: fc.constantFrom('1', '2', '12', '60'),
  ...calendar,
});
const report = fc
  .record({
    // Sums of purchases and revenue alone are read in another way.
    measures: inTenths(
      9,
      fc.oneof(
        { weight: 2, arbitrary: fc.subarray(reportMeasures.slice(0, 3), { minLength: 1 }) },
        { weight: 1, arbitrary: fc.subarray([...reportMeasures], { minLength: 1 }) },
      ),
    ),
    dimensions: fc.shuffledSubarray([...reportDimensions], { maxLength: 3 }),
    period: inTenths(6, fc.constantFrom('day', ...reportDimensions.filter(isPeriodDimension))),
    order: fc.nat({ max: 20 }),
    isDescending: fc.boolean(),
    limit: fc.constantFrom('1', '5', '100', '1000'),
    compareTo: inTenths(4, fc.constantFrom(...comparisons)),
    others: some(calendar),
  })
  .map(({ measures, dimensions, period, order, isDescending, limit, compareTo, others }) => {
    const chosen = dimensions.filter((name) => !isPeriodDimension(name)).slice(0, 2);
    const groupBy = [...(period === undefined ? [] : [period]), ...chosen];
    const names = [...(measures ?? []), ...groupBy];
    const by = names[order];
    return {
      ...(measures === undefined ? {} : { measures: measures.join(',') }),
      ...(groupBy.length === 0 ? {} : { group_by: groupBy.join(',') }),
      ...(by === undefined ? {} : { order_by: `${isDescending ? '-' : ''}${by}` }),
      ...(compareTo === undefined ? {} : { compare_to: compareTo }),
      limit,
      ...others,
    };
  });

const aggregate = (
  route: 'stats' | 'timeseries' | 'report' | 'cohorts',
  parameters: fc.Arbitrary<object>,
) =>
  fc
    .record({
      route: fc.constant(route),
      filters: route === 'report' ? filtersOfReports : filters,
      parameters,
      customer_type: inTenths(route === 'cohorts' ? 0 : 1, fc.constantFrom('new', 'returning')),
    })
    .map(({ customer_type, ...question }) => ({
      ...question,
      parameters: { ...question.parameters, ...(customer_type && { customer_type }) },
    })) as fc.Arbitrary<Question>;

const form = fc.constantFrom<Form>('id', 'opaque');
const page = fc.record({
  route: fc.constant('list' as const),
  filters: fc.oneof(unfiltered, filters),
  limit: fc.constantFrom(1, 1, 1, 2, 7, 100),
  back: inTenths(8, fc.nat({ max: 3 })),
  first: fc.oneof(
    { weight: 1, arbitrary: fc.array(form, { minLength: 1, maxLength: 2 }) },
    { weight: 2, arbitrary: fc.constant<Form[]>(['opaque', 'id']) },
  ),
  walk: fc.array(form, { maxLength: 4 }),
  isOfCustomer: fc.boolean(),
}) as fc.Arbitrary<Question>;

const purchase = fc.record({
  route: fc.constant('purchase' as const),
  back: fc.nat({ max: 3 }),
}) as fc.Arbitrary<Question>;

const questions = {
  stats: { weight: 3, arbitrary: aggregate('stats', stats) },
  timeseries: { weight: 4, arbitrary: aggregate('timeseries', timeSeries) },
  report: { weight: 6, arbitrary: aggregate('report', report) },
  cohorts: { weight: 3, arbitrary: aggregate('cohorts', cohorts) },
  list: {
    weight: 6,
    arbitrary: fc.oneof(
      { weight: 6, arbitrary: page },
      { weight: 1, arbitrary: purchase },
    ) as fc.Arbitrary<Question>,
  },
} as const;

/** Kinds of questions. */
export type Topic = keyof typeof questions;

export const topics = Object.keys(questions) as Topic[];

export const questionAbout = (chosen: readonly Topic[]): fc.Arbitrary<Question> =>
  fc.oneof(...chosen.map((topic) => questions[topic]));
