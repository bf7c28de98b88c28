import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ProcessUsage, readUsage } from '../../measure/process-usage.ts';
import { median, quantile } from '../../measure/statistics.ts';
import type { Plot } from '../../report/plots.ts';
import { complaintsOf, decimal, mebibytes } from '../../report/tables.ts';
import type { ReportText, Suite } from '../../runner/suite.ts';
import { type RunningService, startRunningService } from '../../setup/running-service.ts';
import type { GenerationCount } from './generation-count.ts';
import { type Marker, measureVisibility } from './markers.ts';
import { startChanges } from './steady-changes.ts';

/** Until the worker has found its pace. */
const warmUpMs = 2_000;

export const freshness: Suite = {
  name: 'freshness',
  description: 'from commit to visible over HTTP, under steady changes of many organizations',
  isQuick: true,
  async run(bench) {
    const { organizations = 20, purchasesPerOrganization = 20_000, seed = 42 } = bench.options;
    const { changesPerSecond = 500, writers = 4, seconds = 30, oldPercent = 10 } = bench.options;
    const { scope } = bench;
    const sizes = { organizations, purchases: purchasesPerOrganization, seed };
    const service = await startRunningService(bench, sizes);
    const rate = { changesPerSecond, writers, oldPercent, seed };
    const changes = await startChanges(scope, service.database.pool, service.shops, rate);
    console.log(`Measuring for ${seconds} s.`);
    await sleep(warmUpMs, undefined, { signal: scope.signal });

    const generations = service.countGenerations();
    const read = () => ({ ...readState(service), ...generations(), changes: changes.made() });
    const before = read();
    const markers = await measureVisibility(scope, service, seconds * 1000);
    const figures = { ...compare(before, read()), ...describeMarkers(markers) };
    return {
      options: {
        organizations,
        purchasesPerOrganization,
        changesPerSecond,
        writers,
        oldPercent,
        seconds,
        seed,
      },
      text: [...describe(figures), ...complaintsOf(service.complaints())],
      plots: [plot(markers)],
      figures: { ...figures, complaints: service.complaints(), markers },
    };
  },
};

type State = ReturnType<typeof readState> & GenerationCount & { readonly changes: number };

function readState({ worker, api }: RunningService) {
  return { at: performance.now(), worker: readUsage(worker.pid), api: readUsage(api.pid) };
}

function compare(before: State, after: State) {
  const elapsed = (after.at - before.at) / 1000;
  const rate = (of: (state: State) => number) => (of(after) - of(before)) / elapsed;
  const of = (usage: ProcessUsage | null, name: keyof ProcessUsage) => usage?.[name] ?? Number.NaN;
  const generations = after.generations - before.generations;
  const workerSeconds = of(after.worker, 'cpuSeconds') - of(before.worker, 'cpuSeconds');
  return {
    seconds: elapsed,
    changesPerSecond: rate(({ changes }) => changes),
    generationsPerSecond: rate(({ generations }) => generations),
    copiedBytesPerSecond: rate(({ bytes }) => bytes),
    writtenBytesPerSecond: rate(({ worker }) => of(worker, 'writtenBytes')),
    workerCores: workerSeconds / elapsed,
    /** Processor time: the one figure that others at work on the machine hardly change. */
    workerMsPerGeneration: (1000 * workerSeconds) / generations,
    apiCores: rate(({ api }) => of(api, 'cpuSeconds')),
    workerResidentBytes: of(after.worker, 'residentBytes'),
    apiResidentBytes: of(after.api, 'residentBytes'),
  };
}

function describeMarkers(markers: readonly Marker[]) {
  // One that never came is later than all that did.
  const lags = markers.map(({ lagMs }) => lagMs ?? Number.POSITIVE_INFINITY);
  return {
    lagMs: {
      median: median(lags),
      p95: quantile(lags, 0.95),
      p99: quantile(lags, 0.99),
      max: Math.max(...lags),
    },
    markerCount: markers.length,
    neverVisible: markers.filter(({ lagMs }) => lagMs === null).length,
    /** What one look costs: the lags cannot be told more exactly than that. */
    lookMs: median(markers.map(({ lookMs }) => lookMs)),
  };
}

type Figures = ReturnType<typeof compare> & ReturnType<typeof describeMarkers>;

function describe(figures: Figures): ReportText {
  const { lagMs } = figures;
  const perSecond = (bytes: number) => `${mebibytes(bytes)}/s`;
  return [
    {
      head: ['commit to visible over HTTP', 'median ms', 'p95 ms', 'p99 ms', 'max ms'],
      rows: [
        [
          `${figures.markerCount} purchases`,
          ...[lagMs.median, lagMs.p95, lagMs.p99, lagMs.max].map((value) => decimal(value, 0)),
        ],
      ],
    },
    ...(figures.neverVisible === 0 ? [] : [`Given up waiting for: ${figures.neverVisible}.`]),
    `Changes: ${decimal(figures.changesPerSecond, 0)}/s. ` +
      `Generations: ${decimal(figures.generationsPerSecond)}/s, copied ${perSecond(figures.copiedBytesPerSecond)}, ` +
      `${decimal(figures.workerMsPerGeneration, 0)} ms of the worker's processor time each. ` +
      `One look over HTTP: ${decimal(figures.lookMs)} ms.`,
    `Worker: ${decimal(figures.workerCores, 2)} cores, ${mebibytes(figures.workerResidentBytes)} resident, ` +
      `writes ${perSecond(figures.writtenBytesPerSecond)}. ` +
      `API: ${decimal(figures.apiCores, 2)} cores, ${mebibytes(figures.apiResidentBytes)} resident.`,
  ];
}

function plot(markers: readonly Marker[]): Plot {
  const lags = markers.flatMap(({ lagMs }) => lagMs ?? []).sort((a, b) => a - b);
  return {
    kind: 'curves',
    title: 'From commit to visible over HTTP',
    note: 'How many of the added purchases could be seen after so long.',
    x: { label: 'ms after the commit', scale: 'linear' },
    y: { label: '% visible', scale: 'linear' },
    curves: [
      {
        label: 'added purchases',
        points: lags.map((lagMs, index) => ({ x: lagMs, y: (100 * (index + 1)) / markers.length })),
      },
    ],
  };
}
