import { decimal, describeWarnings, percent, spread, tableOf } from '../../report/tables.ts';
import { defineSuite, type ReportText } from '../../runner/suite.ts';
import { startHttpServer } from '../../setup/programs.ts';
import { startRunningService } from '../../setup/running-service.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';
import { measureMixedLoad } from './mixed-load.ts';
import { measureThroughput, type Throughput } from './throughput.ts';
import { measureUncached } from './uncached.ts';

/** Target: the minimal share of a bare route's requests a second. */
const minShare = 0.6;
/** Target: the maximal time of an uncached response, divided by DuckDB's time. */
const maxRatio = 1.15;

/** A single query is short, so each round has more of them. */
const singleRounds = 5;

export const http = defineSuite({
  name: 'http',
  description: 'requests a second and latencies over HTTP, against a bare route and DuckDB alone',
  isQuick: true,
  defaults: {
    organizations: 100,
    purchasesPerOrganization: 5_000,
    purchases: 200_000,
    rounds: 10,
    seconds: 1,
    seed: 42,
  },
  async run({ options, scope, server }) {
    const { organizations, purchasesPerOrganization, purchases, seed } = options;
    const service = await startRunningService({ scope, server }, [
      { organizations, purchases: purchasesPerOrganization, seed },
      { organizations: 1, purchases, seed },
    ]);
    const bare = await startHttpServer(scope, 'bench/suites/http/bare-api.ts', service.environment);
    const milliseconds = 1000 * options.seconds;
    const rounds = { rounds: options.rounds, signal: scope.signal };
    const single = { ...rounds, rounds: options.rounds * singleRounds };
    console.log('Measuring requests a second.');
    const throughput = await measureThroughput(scope, service, bare, milliseconds, rounds);
    console.log('Measuring uncached responses.');
    const shops = [
      { shop: service.shops.at(0) as BenchmarkShop, purchases: purchasesPerOrganization },
      { shop: service.shops.at(-1) as BenchmarkShop, purchases },
    ];
    const uncached = await measureUncached(service, shops, single);
    console.log('Measuring a mixed load.');
    const mixed = await measureMixedLoad(scope, service, milliseconds, rounds);
    const figures = { throughput, uncached, mixed, warnings: service.warnings() };
    return {
      text: [...describe(figures), ...describeWarnings(figures.warnings)],
      figures: { ...figures, minShare, maxRatio },
    };
  },
});

type Figures = {
  readonly throughput: Awaited<ReturnType<typeof measureThroughput>>;
  readonly uncached: Awaited<ReturnType<typeof measureUncached>>;
  readonly mixed: Awaited<ReturnType<typeof measureMixedLoad>>;
};

const rows = ({ throughput }: Figures): readonly (readonly [string, Throughput])[] => [
  ['key check alone (bare route)', throughput.bare],
  ['statistics, cached response', throughput.cached],
  ['statistics, 304 Not Modified', throughput.notModified],
];

const labelOf = ({ query, purchases }: Figures['uncached'][number]): string =>
  `${query}, ${purchases.toLocaleString('en')} purchases`;

function describe(figures: Figures): ReportText {
  const { throughput, uncached, mixed } = figures;
  const reached = (isReached: boolean) => (isReached ? 'reached' : 'MISSED');
  const share = Math.min(throughput.cached.share.median, throughput.notModified.share.median);
  const missed = uncached.filter(({ ratio }) => ratio.median > maxRatio).map(labelOf);
  return [
    tableOf(rows(figures), {
      [`${throughput.clients} clients`]: ([name]) => name,
      'requests/s': ([, each]) => spread(each.requestsPerSecond, 0),
      'of the bare route': ([, each]) => spread(each.share, 2),
      'API processor ms': ([, each]) => spread(each.serverMsPerRequest, 2),
      'client cores': ([, each]) => decimal(each.clientCores.median, 2),
    }),
    `Target: at least ${percent(minShare)} of the bare route. ${reached(share >= minShare)}.`,
    tableOf(uncached, {
      'not in any cache': labelOf,
      'DuckDB ms': ({ engineMs }) => spread(engineMs, 2),
      'over HTTP ms': ({ httpMs }) => spread(httpMs, 2),
      'HTTP / DuckDB': ({ ratio }) => spread(ratio, 2),
    }),
    `Target: at most ${decimal(maxRatio, 2)} times DuckDB's time. ${reached(missed.length === 0)}` +
      `${missed.length === 0 ? '' : ` by ${missed.join('; ')}`}.`,
    tableOf(mixed, {
      'mixed load': ({ clients }) => `${clients} clients`,
      'requests/s': ({ requestsPerSecond }) => spread(requestsPerSecond, 0),
      'median ms': ({ latencyMs }) => decimal(latencyMs.median),
      'p99 ms': ({ latencyMs }) => decimal(latencyMs.p99),
      'API processor ms': ({ serverMsPerRequest }) => spread(serverMsPerRequest, 2),
    }),
    'Clients (autocannon, in the process of the benchmark), API, worker and Postgres share the ' +
      'machine. If client cores are near 1, the clients are the limit.',
  ];
}
