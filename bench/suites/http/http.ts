import type { Summary } from '../../measure/statistics.ts';
import type { Plot } from '../../report/plots.ts';
import { complaintsOf, decimal, percent, spread } from '../../report/tables.ts';
import type { Scope } from '../../runner/scope.ts';
import type { ReportText, Suite } from '../../runner/suite.ts';
import { startService } from '../../setup/programs.ts';
import {
  type RunningService,
  startRunningService,
  unlimited,
} from '../../setup/running-service.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';
import { measureMixedLoad } from './mixed-load.ts';
import { measureThroughput, type Throughput } from './throughput.ts';
import { measureUncached } from './uncached.ts';

/** What is aimed at: so much of a bare route's requests a second, or more … */
const leastShare = 0.6;
/** … and so many times as long as DuckDB alone, or less. */
const mostRatio = 1.15;

/** Single questions are over quickly: so many more of them in each round. */
const singleRounds = 5;

export const http: Suite = {
  name: 'http',
  description: 'requests a second and latencies over HTTP, against what they cannot do without',
  isQuick: true,
  async run(bench) {
    const { organizations = 100, purchasesPerOrganization = 5_000, seed = 42 } = bench.options;
    const { purchases = 200_000, rounds = 10, seconds = 1 } = bench.options;
    const { scope } = bench;
    const service = await startRunningService(bench, [
      { organizations, purchases: purchasesPerOrganization, seed },
      { organizations: 1, purchases, seed },
    ]);
    const bare = await startBareApi(scope, service);
    const pace = { rounds, milliseconds: 1000 * seconds };
    console.log('Measuring requests a second.');
    const throughput = await measureThroughput(scope, service, bare, pace);
    console.log('Measuring answers that are in no cache.');
    const shops = [
      { shop: service.shops.at(0) as BenchmarkShop, purchases: purchasesPerOrganization },
      { shop: service.shops.at(-1) as BenchmarkShop, purchases },
    ];
    const uncached = await measureUncached(scope, service, bare.url, shops, rounds * singleRounds);
    console.log('Measuring a mixed load.');
    const mixed = await measureMixedLoad(scope, service, pace);
    const figures = { throughput, uncached, mixed, complaints: service.complaints() };
    return {
      options: { organizations, purchasesPerOrganization, purchases, rounds, seconds, seed },
      text: [...describe(figures), ...complaintsOf(figures.complaints)],
      plots: plotsOf(figures),
      figures: { ...figures, leastShare, mostRatio },
    };
  },
};

async function startBareApi(scope: Scope, { database }: RunningService) {
  const environment = { databaseUrl: database.url, ...unlimited };
  const program = startService(scope, 'bench/suites/http/bare-api.ts', [], environment);
  const [, url = ''] = await program.printed(/Listening on (http\S+)/);
  return { pid: program.pid, url };
}

type Figures = {
  readonly throughput: Awaited<ReturnType<typeof measureThroughput>>;
  readonly uncached: Awaited<ReturnType<typeof measureUncached>>;
  readonly mixed: Awaited<ReturnType<typeof measureMixedLoad>>;
};

const rows = ({ throughput }: Figures): readonly (readonly [string, Throughput])[] => [
  ['the key alone (bare route)', throughput.bare],
  ['statistics, answer remembered', throughput.cached],
  ['statistics, 304 Not Modified', throughput.notModified],
];

const asked = ({ question, purchases }: Figures['uncached'][number]): string =>
  `${question}, ${purchases.toLocaleString('en')} purchases`;

function describe(figures: Figures): ReportText {
  const { throughput, uncached, mixed } = figures;
  const reached = (isReached: boolean) => (isReached ? 'reached' : 'MISSED');
  const shares = [throughput.cached, throughput.notModified].map(({ share }) => share.median);
  const missed = uncached.filter(({ ratio }) => ratio.median > mostRatio).map(asked);
  const load = ['requests/s', 'of the bare route', 'API processor ms', 'busy client cores'];
  return [
    {
      head: [`${throughput.clients} clients`, ...load],
      rows: rows(figures).map(([name, measured]) => [
        name,
        spread(measured.requestsPerSecond, 0),
        spread(measured.share, 2),
        spread(measured.serverMsPerRequest, 2),
        decimal(measured.clientCores.median, 2),
      ]),
    },
    `Aim: ${percent(leastShare)} of the bare route or more. ${reached(Math.min(...shares) >= leastShare)}.`,
    {
      head: ['not in any cache', 'DuckDB ms', 'over HTTP ms', 'bare route ms', 'HTTP / DuckDB'],
      rows: uncached.map((each) => [
        asked(each),
        ...[each.engineMs, each.httpMs, each.bareMs, each.ratio].map((value) => spread(value, 2)),
      ]),
    },
    `Aim: at most ${decimal(mostRatio, 2)} times as long as DuckDB. ${reached(missed.length === 0)}` +
      `${missed.length === 0 ? '' : ` by ${missed.join('; ')}`}.`,
    {
      head: ['mixed load', 'requests/s', 'median ms', 'p99 ms', 'API processor ms'],
      rows: mixed.map((each) => [
        `${each.clients} clients`,
        spread(each.requestsPerSecond, 0),
        decimal(each.latencyMs.median, 1),
        decimal(each.latencyMs.p99, 1),
        spread(each.serverMsPerRequest, 2),
      ]),
    },
    'Clients (autocannon, in the process of the benchmark, which does nothing else meanwhile), API, ' +
      'worker and Postgres share the machine; busy client cores near 1 would mean that clients were the limit.',
  ];
}

function plotsOf(figures: Figures): Plot[] {
  const { uncached, mixed } = figures;
  const times100 = (value: Summary) => ({
    median: 100 * value.median,
    lowerQuartile: 100 * value.lowerQuartile,
    upperQuartile: 100 * value.upperQuartile,
  });
  const clients = { label: 'clients', scale: 'log' } as const;
  const byClients = (label: string, value: (each: Figures['mixed'][number]) => number) => ({
    label,
    points: mixed.map((each) => ({ x: each.clients, y: value(each) })),
  });
  return [
    {
      kind: 'bars',
      title: 'Requests a second, of what a bare route does',
      note: 'The bare route asks Postgres for the key, as every request does, and answers nothing.',
      unit: ' %',
      scale: 'linear',
      baseline: 0,
      target: { label: 'aim: 60 % or more', value: 100 * leastShare },
      bars: rows(figures).map(([label, { share }]) => ({ label, value: times100(share) })),
    },
    {
      kind: 'bars',
      title: 'Time over HTTP, of what DuckDB alone takes',
      note: 'Answers that are in no cache, one at a time: key, parameters, waiting, JSON and sockets come on top.',
      unit: '×',
      scale: 'log',
      baseline: 1,
      target: { label: 'aim: 1.15 or less', value: mostRatio },
      bars: uncached.map((each) => ({ label: asked(each), value: each.ratio })),
    },
    {
      kind: 'curves',
      title: 'Latency of a mixed load',
      note: 'Each client asks anew as soon as it is answered; a fifth of what is asked is in no cache.',
      x: clients,
      y: { label: 'ms', scale: 'log' },
      curves: [
        byClients('median', ({ latencyMs }) => latencyMs.median),
        byClients('99th percentile', ({ latencyMs }) => latencyMs.p99),
      ],
    },
    {
      kind: 'curves',
      title: 'Throughput of a mixed load',
      x: clients,
      y: { label: 'requests/s', scale: 'linear' },
      curves: [byClients('requests/s', ({ requestsPerSecond }) => requestsPerSecond.median)],
    },
  ];
}
