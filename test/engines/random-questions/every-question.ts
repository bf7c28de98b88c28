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
import type { Burst } from './shop.ts';

/** Days after the origin of the shop, whose purchases are within 60 days of it. */
const after = (days: number) => ({ origin: 0, quarters: 96 * days, micros: 0 });
const bound = (days: number) => ({ ...after(days), growth: 0, isOfPurchase: false });
const bounds = { since: bound(-15), until: bound(15) };

const each = (name: string, values: readonly (string | readonly string[])[]): Parameters[] =>
  values.map((value) => ({ [name]: value }));

const texts = [...new Set(awkwardLabels)].filter((text) => text !== '' && [...text].length <= 256);
const cents = ['0', '1', '99', '100', '101', '5000'];

const filters: readonly Filters[] = [
  ...[{}, { since: bounds.since }, { until: bounds.until }, bounds, { customer: 3 }],
  ...[
    ...each('status', [...paymentStatuses, 'paid,refunded', 'any']),
    ...each('platform', [...platforms, 'shopify,bling']),
    ...each('min_value_in_cents', cents),
    ...each('max_value_in_cents', cents),
    ...each('currency', ['BRL', 'jpy', ['BRL', 'USD']]),
    ...each('without', [...optionalDimensions, 'currency,utm_term']),
    ...each('coupon', ['FREE', ['FREE', 'VERÃO10']]),
    ...each('not', ['utm_source:google', ['status:paid', 'coupon:FREE']]),
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
  ...cohortIntervals.map((interval) => ask('cohorts', { interval }, {})),
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

const changes: readonly Step[] = [
  { kind: 'update', of: { every: 3 }, change: { status: 'paid', cents: 100, source: 'google' } },
  { kind: 'insert', burst: { ...burst, count: 100, seed: 2 } },
  { kind: 'delete', of: { every: 7 } },
];

/** Each value of each parameter after changes. Lists are also asked before, so that they are cached. */
export const everyQuestion: Scenario = {
  settings: { worker: { maxPurchasesWithoutBase: 0 }, shortcuts: {} },
  shop: { origins: ['2025-03-01T03:00:00Z'], bursts: [burst] },
  questions: lists,
  history: [
    { steps: changes, newQuestions: purchases, asked: [...lists.keys()] },
    { steps: [], newQuestions: aggregates, asked: [] },
  ],
};
