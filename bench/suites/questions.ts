import { inRounds, timed, wall } from '../measure/rounds.ts';
import { median, summaryOf } from '../measure/statistics.ts';
import { decimal, describeWarnings, spread, tableOf } from '../report/tables.ts';
import { defineSuite } from '../runner/suite.ts';
import { startRunningService } from '../setup/running-service.ts';
import type { BenchmarkShop } from '../setup/shops.ts';

/** Most shops have about so many purchases. */
const fewPurchases = 20_000;

type Question = {
  readonly path: string;
  /** How many days before the end of the demo data a range begins; all purchases if undefined. */
  readonly days?: number;
};

const sums = 'measures=purchase_count,revenue_in_cents';
const withCustomers = `${sums},customer_count`;

/** Each kind of question. */
const questions: Readonly<Record<string, Question>> = {
  totals: { path: 'stats?' },
  'totals of 30 days, paid': { path: 'stats?status=paid', days: 30 },
  'ranking by campaign': { path: 'stats?group_by=utm_campaign' },
  'ranking by source, paid': { path: 'stats?group_by=utm_source&status=paid' },
  'paid, 30 days by campaign': { path: 'stats?group_by=utm_campaign&status=paid', days: 30 },
  'weekly series': { path: 'timeseries?interval=week' },
  'monthly series of Berlin': { path: 'timeseries?interval=month&timezone=Europe/Berlin' },
  '30 days by day': { path: 'timeseries?interval=day', days: 30 },
  'a year by month and source': {
    path: 'timeseries?interval=month&group_by=utm_source',
    days: 365,
  },
  'report by platform': { path: `report?${sums}&group_by=platform` },
  'three dimensions, with customers': {
    path: `report?${withCustomers}&group_by=utm_source,platform,status&limit=1000`,
  },
  'week by campaign, with customers': {
    path: `report?${withCustomers}&group_by=week,utm_campaign&limit=1000`,
  },
  'new and returning by campaign, a year': {
    path: `report?${sums},new_customer_count,returning_customer_count&group_by=utm_campaign`,
    days: 365,
  },
  'a month by campaign, compared': {
    path: `report?${sums}&group_by=utm_campaign&compare_to=previous_period`,
    days: 30,
  },
  'the best 100 customers': { path: `report?${sums}&group_by=customer` },
  'monthly cohorts, paid, a year': { path: 'cohorts?status=paid', days: 365 },
};

/** Demo data end on 1 January 2026. */
const end = Date.UTC(2026, 0, 1);
const dayMs = 86_400_000;

export const questionsSuite = defineSuite({
  name: 'questions',
  description: `what each kind of question takes over HTTP, more than /v1/me, with ${fewPurchases.toLocaleString('en')} purchases and with many`,
  isQuick: false,
  defaults: { purchases: 1_000_000, seed: 42, rounds: 31 },
  async run({ options: { purchases, seed, rounds }, scope, server }) {
    const sizes = [fewPurchases, purchases].map((count) => ({
      organizations: 1,
      purchases: count,
      seed,
    }));
    const service = await startRunningService({ scope, server }, sizes, {
      api: { RATE_LIMIT_PER_MINUTE: '1000000' },
    });
    const [few, many] = service.shops as [BenchmarkShop, BenchmarkShop];
    let asked = 0;
    /** A bound in milliseconds that no question had before, so that no cache has the response. */
    const pathOf = ({ path, days }: Question): string => {
      asked += 1;
      const until = new Date(end + asked).toISOString();
      const since =
        days === undefined
          ? ''
          : `&created_since=${new Date(end - days * dayMs - asked).toISOString()}`;
      return `/v1/purchases/${path}${since}&created_until=${until}`;
    };
    const ask = (question: Question, shop: BenchmarkShop) => () =>
      service.get(pathOf(question), shop);
    const figures = [];
    for (const [name, question] of Object.entries(questions)) {
      const tasks = {
        me: timed(() => service.get('/v1/me', few)),
        few: timed(ask(question, few)),
        many: timed(ask(question, many)),
      };
      const times = await inRounds(tasks, { rounds, warmUps: 3, signal: scope.signal });
      const more = (task: 'few' | 'many') =>
        median(times[task].map((time, round) => time.wall - (times.me[round]?.wall ?? 0)));
      figures.push({
        question: name,
        meMs: summaryOf(times.me, wall),
        moreOfFewMs: more('few'),
        moreOfManyMs: more('many'),
        manyMs: summaryOf(times.many, wall),
      });
    }
    const warnings = service.warnings();
    return {
      text: [
        tableOf(figures, {
          question: ({ question }) => question,
          [`${fewPurchases.toLocaleString('en')} purchases, ms more than /v1/me`]: ({
            moreOfFewMs,
          }) => decimal(moreOfFewMs),
          [`${purchases.toLocaleString('en')} purchases, ms more`]: ({ moreOfManyMs }) =>
            decimal(moreOfManyMs),
          'all of it, ms': ({ manyMs }) => spread(manyMs),
          '/v1/me, ms': ({ meMs }) => spread(meMs),
        }),
        ...describeWarnings(warnings),
      ],
      figures: { questions: figures, warnings },
    };
  },
});
