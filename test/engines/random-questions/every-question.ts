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
  type ReportDimension,
  reportDimensions,
  reportMeasures,
} from '../../../src/domain/purchase-report.ts';
import { awkwardLabels } from '../../support/awkward-purchases.ts';
import type { Step } from './history.ts';
import type { Filters, Parameters, Question } from './question.ts';
import type { Scenario } from './scenario.ts';
import type { Settings } from './settings.ts';
import type { Burst } from './shop.ts';

/** Clocks of St. John's go back over midnight at the second one, and by three hours of Casey at the third one. */
const origins = ['2025-03-01T03:00:00Z', '2010-11-07T02:30:00Z', '2010-03-04T15:00:00Z'];
/** Days after an origin. Most purchases are within 30 days of the first one. */
const after = (days: number, origin = 0) => ({ origin, quarters: 96 * days, micros: 0 });
const bound = (days: number, origin = 0) => ({
  ...after(days, origin),
  growth: 0,
  isOfPurchase: false,
});
const bounds = { since: bound(-15), until: bound(15) };
/** Clocks change within these: those of Europe, of the United States and Cuba, of Canada, of Antarctica. */
const changesOfClocks = [
  ['Europe/Berlin', { since: bound(28), until: bound(30) }],
  ['America/Havana', { since: bound(7), until: bound(9) }],
  ['America/St_Johns', { since: bound(-1, 1), until: bound(1, 1) }],
  ['Antarctica/Casey', { since: bound(-1, 2), until: bound(1, 2) }],
] as const;

const each = (name: string, values: readonly (string | readonly string[])[]): Parameters[] =>
  values.map((value) => ({ [name]: value }));

const texts = [...new Set(awkwardLabels)].filter((text) => text !== '' && [...text].length <= 256);
const cents = ['0', '1', '99', '100', '101', '5000'];

const filters: readonly Filters[] = [
  ...[{}, { since: bounds.since }, { until: bounds.until }, bounds, { customer: 3 }],
  { since: bounds.until, until: bounds.since },
  ...[
    ...each('status', [...paymentStatuses, 'paid,refunded', 'any']),
    ...each('platform', [...platforms, 'shopify,bling']),
    ...each('min_value_in_cents', cents),
    ...each('max_value_in_cents', cents),
    ...each('currency', ['BRL', 'jpy', ['BRL', 'USD']]),
    ...each('without', [...optionalDimensions, 'currency,utm_term']),
    ...each('coupon', ['FREE', ['FREE', 'VERÃO10']]),
    ...each('not', [
      ...trackingLabels.map((name) => `${name}:${texts[0]}`),
      ...['platform:bling', 'shipping_status:shipped', 'currency:BRL', 'currency:jpy'],
      ...[
        ['status:paid', 'coupon:FREE'],
        ['utm_source:a', 'utm_source:google'],
      ],
    ]),
    ...each('weekday', ['1', '3,7']),
    ...each('hour_of_day', ['0', '12,13,23']),
    ...each('utm_source', [...texts, texts.slice(0, 3)]),
    ...trackingLabels.flatMap((name) => each(name, texts.slice(0, 1))),
  ].map((parameters) => ({ parameters })),
].map((some): Filters => ({ parameters: {}, ...some }));

const lists = filters.map((each): Question => {
  const shape = { limit: 20, back: undefined, first: ['opaque'], walk: [] } as const;
  return { route: 'list', filters: each, ...shape, isOfCustomer: false };
});

/** The last purchases of pages that were read before the changes. */
const purchases = Array.from(
  { length: lists.length },
  (_, back): Question => ({ route: 'purchase', back }),
);

type Route = 'stats' | 'timeseries' | 'report' | 'cohorts';
const ask = (route: Route, parameters: Readonly<Record<string, string>>, of: object = bounds) =>
  ({ route, filters: { parameters: {}, ...of }, parameters }) as Question;
const by = (name: string | null): Record<string, string> =>
  name === null ? {} : { group_by: name };

/** Of months of hours, SQL would take a minute. */
const comparisonsOf = (name: ReportDimension | null) => {
  if (name === 'hour') return [];
  return name === null || isPeriodDimension(name) ? comparisons : comparisons.slice(0, 1);
};

const measures = reportMeasures.join();
/** Those of the best customers, which are read in another way. */
const few = 'purchase_count,revenue_in_cents,customer_count';
const zones = ['UTC', 'America/Sao_Paulo'];
const aggregates = [
  ...filters.map((each) => ask('stats', {}, each)),
  ...filters.map((each) => ask('report', { measures: few, group_by: 'customer' }, each)),
  ...statsDimensions.map((name) => ask('stats', by(name), {})),
  ...intervals.map((interval) => ask('timeseries', { interval })),
  ...seriesDimensions.map((name) => ask('timeseries', { interval: 'month', ...by(name) })),
  ...zones.flatMap((timezone) =>
    weekStarts.map((week_start) => ask('timeseries', { interval: 'week', timezone, week_start })),
  ),
  ...changesOfClocks.flatMap(([timezone, near]) =>
    ['hour', 'day'].flatMap((interval) => [
      ask('timeseries', { interval, timezone }, near),
      ask('report', { group_by: interval, timezone, compare_to: 'previous_period' }, near),
    ]),
  ),
  // More periods than there may be, between the first and the last purchase.
  ask('timeseries', { interval: 'day', group_by: 'platform' }, {}),
  ask('report', { group_by: 'day' }, {}),
  ask('cohorts', { interval: 'week' }, {}),
  ...cohortIntervals.map((interval) => ask('cohorts', { interval }, { since: bounds.since })),
  ...labelDimensions.map((name) => ask('cohorts', by(name), {})),
  ...[null, ...reportDimensions].flatMap((name) => [
    ask('report', { measures, ...by(name) }),
    ask('report', { measures, ...by(name) }, { parameters: { status: 'paid' } }),
    ...comparisonsOf(name).map((compare_to) =>
      ask('report', { measures, ...by(name), compare_to, limit: '1000' }),
    ),
  ]),
  ...reportDimensions
    .filter((name) => !isPeriodDimension(name) && name !== 'customer_type')
    .map((name) => ask('report', { measures, group_by: `customer_type,${name}` })),
];

const burst: Burst = {
  count: 300,
  coupons: 'few',
  from: after(-30),
  minutes: 60 * 24 * 60,
  customers: 20,
  firstCustomer: 0,
  labels: 'awkward',
  currencies: 'several',
  statuses: 'every',
  amounts: 'small',
  seed: 1,
};

const ofOthers = [1, 2].map(
  (origin): Burst => ({
    ...burst,
    count: 60,
    from: after(-1, origin),
    minutes: 60 * 24 * 2,
    customers: 5,
    firstCustomer: 30,
  }),
);

const changes: readonly Step[] = [
  { kind: 'update', of: { every: 3 }, change: { status: 'paid', cents: 100, source: 'google' } },
  { kind: 'insert', burst: { ...burst, count: 100, seed: 2 } },
  { kind: 'delete', of: { every: 7 } },
];

/** Each value of each parameter after changes. Lists are also asked before, so that they are cached. */
export const everyQuestionOf = ({ engine, shortcuts }: Omit<Settings, 'worker'>): Scenario => ({
  settings: { engine, worker: { maxPurchasesWithoutBase: 0 }, shortcuts },
  shop: { origins, bursts: [burst, ...ofOthers] },
  questions: lists,
  history: [
    { steps: changes, newQuestions: purchases, asked: [...lists.keys()] },
    { steps: [], newQuestions: aggregates, asked: [] },
  ],
});
