import { setTimeout as sleep } from 'node:timers/promises';
import { type ProcessUsage, readUsage } from '../../measure/process-usage.ts';
import { median, quantile } from '../../measure/statistics.ts';
import type { Plot } from '../../report/plots.ts';
import { decimal, describeWarnings, mebibytes } from '../../report/tables.ts';
import { defineSuite, type ReportText } from '../../runner/suite.ts';
import { type RunningService, startRunningService } from '../../setup/running-service.ts';
import { countGenerations, type GenerationCount } from './generation-count.ts';
import { type Marker, measureVisibility } from './markers.ts';
import { startChanges } from './steady-changes.ts';

/** In this time, the worker's intervals adapt to the changes. */
const warmUpMs = 2_000;

export const freshness = defineSuite({
  name: 'freshness',
  description: 'from commit to visible over HTTP, under steady changes of many organizations',
  isQuick: true,
  defaults: {
    organizations: 20,
    purchasesPerOrganization: 20_000,
    changesPerSecond: 500,
    writers: 4,
    oldPercent: 10,
    seconds: 30,
    seed: 42,
  },
  async run({ options, scope, server }) {
    const { organizations, purchasesPerOrganization: purchases, seconds, seed } = options;
    const sizes = { organizations, purchases, seed };
    const service = await startRunningService({ scope, server }, [sizes]);
    const changes = await startChanges(scope, service.database.pool, service.shops, options);
    console.log(`Measuring for ${seconds} s.`);
    await sleep(warmUpMs, undefined, { signal: scope.signal });
    const generations = countGenerations(scope, service);
    const read = () => ({ ...readState(service), ...generations(), changes: changes() });
    const before = read();
    const markers = await measureVisibility(scope, service, seconds * 1000);
    const figures = { ...compare(before, read()), ...summarizeMarkers(markers) };
    const warnings = service.warnings();
    return {
      text: [...describe(figures), ...describeWarnings(warnings)],
      plots: [plot(markers)],
      figures: { ...figures, warnings, markers },
    };
  },
});

type State = ReturnType<typeof readState> & GenerationCount & { readonly changes: number };

const readState = ({ worker, api }: RunningService) => ({
  at: performance.now(),
  worker: readUsage(worker.pid),
  api: readUsage(api.pid),
});

function compare(before: State, after: State) {
  const elapsed = (after.at - before.at) / 1000;
  const rate = (of: (state: State) => number) => (of(after) - of(before)) / elapsed;
  const of = (usage: ProcessUsage | null, name: keyof ProcessUsage) => usage?.[name] ?? Number.NaN;
  const generations = after.generations - before.generations;
  const workerCores = rate(({ worker }) => of(worker, 'cpuSeconds'));
  return {
    seconds: elapsed,
    changesPerSecond: rate(({ changes }) => changes),
    generationsPerSecond: rate((state) => state.generations),
    copiedBytesPerSecond: rate(({ bytes }) => bytes),
    writtenBytesPerSecond: rate(({ worker }) => of(worker, 'writtenBytes')),
    workerCores,
    /** Processor time: other programs on the machine hardly change it. */
    workerMsPerGeneration: (1000 * workerCores * elapsed) / generations,
    apiCores: rate(({ api }) => of(api, 'cpuSeconds')),
    workerResidentBytes: of(after.worker, 'residentBytes'),
    apiResidentBytes: of(after.api, 'residentBytes'),
  };
}

function summarizeMarkers(markers: readonly Marker[]) {
  // A marker that never became visible is later than all others.
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
    /** The precision of the lags. */
    requestMs: median(markers.map(({ requestMs }) => requestMs)),
  };
}

type Figures = ReturnType<typeof compare> & ReturnType<typeof summarizeMarkers>;

function describe(figures: Figures): ReportText {
  const { median, p95, p99, max } = figures.lagMs;
  const lags = [median, p95, p99, max].map((value) => decimal(value, 0));
  const perSecond = (bytes: number) => `${mebibytes(bytes)}/s`;
  return [
    {
      head: ['commit to visible over HTTP', 'median ms', 'p95 ms', 'p99 ms', 'max ms'],
      rows: [[`${figures.markerCount} purchases`, ...lags]],
    },
    ...(figures.neverVisible === 0 ? [] : [`Never visible: ${figures.neverVisible}.`]),
    `Changes: ${decimal(figures.changesPerSecond, 0)}/s. ` +
      `Generations: ${decimal(figures.generationsPerSecond)}/s, copied ${perSecond(figures.copiedBytesPerSecond)}, ` +
      `${decimal(figures.workerMsPerGeneration, 0)} ms of the worker's processor time each. ` +
      `One request: ${decimal(figures.requestMs)} ms.`,
    `Worker: ${decimal(figures.workerCores, 2)} cores, ${mebibytes(figures.workerResidentBytes)} resident, ` +
      `writes ${perSecond(figures.writtenBytesPerSecond)}. ` +
      `API: ${decimal(figures.apiCores, 2)} cores, ${mebibytes(figures.apiResidentBytes)} resident.`,
  ];
}

function plot(markers: readonly Marker[]): Plot {
  const lags = markers.flatMap(({ lagMs }) => lagMs ?? []).sort((a, b) => a - b);
  const points = lags.map((x, index) => ({ x, y: (100 * (index + 1)) / markers.length }));
  return {
    kind: 'curves',
    title: 'From commit to visible over HTTP',
    note: 'The percentage of added purchases that are visible after this time.',
    x: { label: 'ms after the commit', scale: 'linear' },
    y: { label: '% visible', scale: 'linear' },
    curves: [{ label: 'added purchases', points }],
  };
}
