import { inRounds, timed, wall } from '../measure/rounds.ts';
import { ratioOf, summaryOf } from '../measure/statistics.ts';
import { decimal, describeWarnings, spread, tableOf } from '../report/tables.ts';
import { defineSuite } from '../runner/suite.ts';
import { startRunningService } from '../setup/running-service.ts';
import type { BenchmarkShop } from '../setup/shops.ts';

/** A request and the request whose time its own is divided by. */
type Comparison = {
  readonly path: string;
  readonly against?: string;
  /** The largest ratio of medians that is accepted. */
  readonly target?: number;
};

const ranking = 'stats?group_by=utm_campaign';
const sums = 'measures=purchase_count,revenue_in_cents';
const revenueOfYear =
  'report?measures=revenue_in_cents&group_by=utm_campaign' +
  '&created_since=2025-01-01T00:00:00Z&created_until=2025-12-31T23:59:59.999999Z';
const weeks = 'timeseries?interval=week&created_since=2024-06-01T00:00:00';

/** Demo data end on 1 January 2026. */
const comparisons: Readonly<Record<string, Comparison>> = {
  'three dimensions': {
    path: `report?${sums}&group_by=utm_source,utm_medium,platform`,
    target: 1.5,
  },
  'new and returning by campaign': {
    path: `report?${sums}&group_by=customer_type,utm_campaign`,
    target: 2,
  },
  'the best 100 customers': {
    path: 'report?measures=revenue_in_cents,purchase_count&group_by=customer&limit=100',
    target: 2,
  },
  'customers by campaign by month': {
    path: 'report?measures=customer_count&group_by=month,utm_campaign&limit=1000',
    target: 4,
  },
  'revenue by campaign by week': {
    path: 'report?measures=revenue_in_cents&group_by=week,utm_campaign&limit=1000',
  },
  'the last thirty days by day, from a millisecond': {
    path: `report?${sums}&group_by=day&created_since=2025-12-02T00:00:00.001Z`,
  },
  'cohorts of four years by month': {
    path: 'cohorts?created_since=2022-01-01T00:00:00Z&periods=60',
    target: 5,
  },
  'a year by campaign, compared with the previous year': {
    path: `${revenueOfYear}&compare_to=previous_year`,
    against: revenueOfYear,
    target: 2.2,
  },
  'a weekly series from a millisecond, against a quarter of an hour': {
    path: `${weeks}.001Z`,
    against: `${weeks}Z`,
    target: 1.3,
  },
};

export const reports = defineSuite({
  name: 'reports',
  description: 'reports and cohorts over HTTP, against a ranking by campaign of the same purchases',
  isQuick: false,
  defaults: { purchases: 1_000_000, seed: 42, rounds: 15 },
  async run({ options: { purchases, seed, rounds }, scope, server }) {
    const service = await startRunningService(
      { scope, server },
      [{ organizations: 1, purchases, seed }],
      { api: { RESPONSE_CACHE_MIB: '0' } },
    );
    const shop = service.shops[0] as BenchmarkShop;
    const paths = Object.values(comparisons).flatMap(({ path, against = ranking }) => [
      path,
      against,
    ]);
    const tasks = Object.fromEntries(
      [...new Set(paths)].map((path) => [
        path,
        timed(() => service.get(`/v1/purchases/${path}`, shop)),
      ]),
    );
    const times = await inRounds(tasks, { rounds, signal: scope.signal });
    const figures = Object.entries(comparisons).map(([query, { path, against, target }]) => {
      const own = times[path] ?? [];
      const others = times[against ?? ranking] ?? [];
      return {
        query,
        path,
        milliseconds: summaryOf(own, wall),
        againstMilliseconds: summaryOf(others, wall),
        ratio: ratioOf(own, others, wall),
        target: target ?? null,
      };
    });
    return {
      text: [
        tableOf(figures, {
          query: ({ query }) => query,
          ms: ({ milliseconds }) => spread(milliseconds),
          'compared with ms': ({ againstMilliseconds }) => spread(againstMilliseconds),
          ratio: ({ ratio }) => spread(ratio, 2),
          target: ({ target }) => (target === null ? '' : decimal(target)),
        }),
        'Without cached responses. Compared with the ranking by campaign of all purchases, or with the ' +
          'request that the name states.',
        ...describeWarnings(service.warnings()),
      ],
      figures: { reports: figures },
    };
  },
});
