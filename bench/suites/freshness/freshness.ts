import { setTimeout as sleep } from 'node:timers/promises';
import { type ProcessUsage, readUsage } from '../../measure/process-usage.ts';
import { median, quantile } from '../../measure/statistics.ts';
import { decimal, describeWarnings, mebibytes } from '../../report/tables.ts';
import { defineSuite, type ReportText } from '../../runner/suite.ts';
import { type RunningService, startRunningService } from '../../setup/running-service.ts';
import { type Marker, measureVisibility } from './markers.ts';
import { startReaders } from './readers.ts';
import { startChanges } from './steady-changes.ts';
import { countTicks } from './tick-count.ts';

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
    /** Each requests statistics of every organization once a second. */
    readers: 0,
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
    const ticks = countTicks(scope, service);
    const reads = startReaders(scope, service, options.readers);
    const read = () => ({
      ...readState(service),
      ticks: ticks(),
      reads: reads(),
      changes: changes(),
    });
    const before = read();
    const markers = await measureVisibility(scope, service, seconds * 1000);
    const figures = { ...compare(before, read()), ...summarizeMarkers(markers) };
    const warnings = service.warnings();
    return {
      text: [...describe(figures), ...describeWarnings(warnings)],
      figures: { ...figures, warnings, markers },
    };
  },
});

type State = ReturnType<typeof readState> & Readonly<Record<'ticks' | 'reads' | 'changes', number>>;

const readState = ({ worker, api }: RunningService) => ({
  at: performance.now(),
  worker: readUsage(worker.pid),
  api: readUsage(api.pid),
});

function compare(before: State, after: State) {
  const elapsed = (after.at - before.at) / 1000;
  const rate = (of: (state: State) => number) => (of(after) - of(before)) / elapsed;
  const of = (usage: ProcessUsage | null, name: keyof ProcessUsage) => usage?.[name] ?? Number.NaN;
  const written = rate(({ worker }) => of(worker, 'writtenBytes'));
  const changes = rate((state) => state.changes);
  return {
    seconds: elapsed,
    changesPerSecond: changes,
    ticksPerSecond: rate((state) => state.ticks),
    readsPerSecond: rate((state) => state.reads),
    writtenBytesPerChange: written / changes,
    /** Processor time: other programs on the machine hardly change it. */
    workerCores: rate(({ worker }) => of(worker, 'cpuSeconds')),
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
  return [
    {
      head: ['commit to visible over HTTP', 'median ms', 'p95 ms', 'p99 ms', 'max ms'],
      rows: [[`${figures.markerCount} purchases`, ...lags]],
    },
    ...(figures.neverVisible === 0 ? [] : [`Never visible: ${figures.neverVisible}.`]),
    `Changes: ${decimal(figures.changesPerSecond, 0)}/s. ` +
      `Ticks with changes: ${decimal(figures.ticksPerSecond)}/s. ` +
      `Other statistics: ${decimal(figures.readsPerSecond, 0)}/s. ` +
      `One request: ${decimal(figures.requestMs)} ms.`,
    `Worker: ${decimal(figures.workerCores, 2)} cores, ${mebibytes(figures.workerResidentBytes)} resident, ` +
      `${decimal(figures.writtenBytesPerChange, 0)} bytes written for a change. ` +
      `API: ${decimal(figures.apiCores, 2)} cores, ${mebibytes(figures.apiResidentBytes)} resident.`,
  ];
}
