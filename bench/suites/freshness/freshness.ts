import { setTimeout as sleep } from 'node:timers/promises';
import { type ProcessUsage, readUsage } from '../../measure/process-usage.ts';
import { median, quantile } from '../../measure/statistics.ts';
import { decimal, describeWarnings, mebibytes } from '../../report/tables.ts';
import { defineSuite, type ReportText } from '../../runner/suite.ts';
import { type RunningService, startRunningService } from '../../setup/running-service.ts';
import { startChanges } from '../../setup/steady-changes.ts';
import { measureVisibility } from './markers.ts';
import { startReaders } from './readers.ts';

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
    const reads = startReaders(scope, service, options.readers);
    const read = () => ({ ...readState(service), reads: reads(), changes: changes() });
    const before = read();
    const lags = await measureVisibility(scope, service, seconds * 1000);
    const figures = {
      ...compare(before, read()),
      lagMs: { median: median(lags), p95: quantile(lags, 0.95), p99: quantile(lags, 0.99) },
      purchases: lags.length,
    };
    const warnings = service.warnings();
    return {
      text: [...describe(figures), ...describeWarnings(warnings)],
      figures: { ...figures, warnings },
    };
  },
});

type State = ReturnType<typeof readState> & Readonly<Record<'reads' | 'changes', number>>;

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
    readsPerSecond: rate((state) => state.reads),
    writtenBytesPerChange: written / changes,
    /** Processor time: other programs on the machine hardly change it. */
    workerCores: rate(({ worker }) => of(worker, 'cpuSeconds')),
    apiCores: rate(({ api }) => of(api, 'cpuSeconds')),
    workerResidentBytes: of(after.worker, 'residentBytes'),
    apiResidentBytes: of(after.api, 'residentBytes'),
  };
}

type Figures = ReturnType<typeof compare> & {
  readonly lagMs: Readonly<Record<'median' | 'p95' | 'p99', number>>;
  readonly purchases: number;
};

function describe(figures: Figures): ReportText {
  const { median, p95, p99 } = figures.lagMs;
  const lags = [median, p95, p99].map((value) => decimal(value, 0));
  return [
    {
      head: ['commit to visible over HTTP', 'median ms', 'p95 ms', 'p99 ms'],
      rows: [[`${figures.purchases} purchases`, ...lags]],
    },
    `Changes: ${decimal(figures.changesPerSecond, 0)}/s. ` +
      `Other statistics: ${decimal(figures.readsPerSecond, 0)}/s. ` +
      `Worker: ${decimal(figures.workerCores, 2)} cores, ${mebibytes(figures.workerResidentBytes)} resident, ` +
      `${decimal(figures.writtenBytesPerChange, 0)} bytes written for a change. ` +
      `API: ${decimal(figures.apiCores, 2)} cores, ${mebibytes(figures.apiResidentBytes)} resident.`,
  ];
}
