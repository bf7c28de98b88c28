import { setTimeout as sleep } from 'node:timers/promises';
import { OperatorError } from '../../../src/process/operator-error.ts';
import { readUsage } from '../../measure/process-usage.ts';
import { median, slope } from '../../measure/statistics.ts';
import { decimal, describeWarnings, tableOf } from '../../report/tables.ts';
import type { Scope } from '../../runner/scope.ts';
import { defineSuite, type ReportText } from '../../runner/suite.ts';
import { type RunningService, startRunningService } from '../../setup/running-service.ts';
import { startChanges } from './steady-changes.ts';
import { countTicks } from './tick-count.ts';

/** Each poll of the worker finds changes. */
const workerSettings = { SYNC_POLL_INTERVAL_MS: '20' };

export const memory = defineSuite({
  name: 'memory',
  description: 'resident memory of worker and API through thousands of ticks',
  isQuick: false,
  defaults: {
    organizations: 4,
    purchasesPerOrganization: 1_000,
    changesPerSecond: 80,
    writers: 2,
    oldPercent: 10,
    minutes: 1,
    seed: 42,
  },
  async run({ options, scope, server }) {
    const { organizations, purchasesPerOrganization: purchases, minutes, seed } = options;
    if (readUsage(process.pid) === null) {
      throw new OperatorError('This suite reads /proc, which only Linux has.');
    }
    const sizes = [{ organizations, purchases, seed }];
    const service = await startRunningService({ scope, server }, sizes, workerSettings);
    const changes = await startChanges(scope, service.database.pool, service.shops, options);
    const responses = startReader(scope, service);
    console.log(`Sampling for ${minutes} min.`);
    const samples = await sample(scope, service, changes, minutes * 60_000);
    const figures = {
      worker: summarizeSamples(samples, ({ workerBytes }) => workerBytes),
      api: summarizeSamples(samples, ({ apiBytes }) => apiBytes),
      ticks: samples.at(-1)?.ticks ?? 0,
      changes: changes(),
      responses: responses(),
      warnings: service.warnings(),
    };
    return {
      text: [...describe(figures), ...describeWarnings(figures.warnings)],
      figures: { ...figures, samples },
    };
  },
});

/** Queries every organization in turn, so that the API follows all of them. */
function startReader(scope: Scope, { shops, get }: RunningService): () => number {
  let responses = 0;
  const read = async () => {
    for (;;) {
      for (const shop of shops) {
        await get('/v1/purchases/stats?group_by=status', shop);
        await get('/v1/purchases?limit=25', shop);
        responses += 2;
        await sleep(100, undefined, { signal: scope.signal });
      }
    }
  };
  const reading = read().catch(scope.fail);
  scope.afterwards(() => reading);
  return () => responses;
}

type Sample = {
  readonly seconds: number;
  readonly ticks: number;
  readonly changes: number;
  /** Resident, and the part of it that no file backs. */
  readonly workerBytes: number;
  readonly workerAnonymousBytes: number;
  readonly apiBytes: number;
  readonly apiAnonymousBytes: number;
};

async function sample(
  scope: Scope,
  service: RunningService,
  changes: () => number,
  forMs: number,
): Promise<Sample[]> {
  // Sixty in a minute, some hundreds in an hour.
  const intervalMs = Math.min(10_000, Math.max(forMs / 60, 100));
  const samples: Sample[] = [];
  const ticks = countTicks(scope, service);
  const startedAt = performance.now();
  for (let dueMs = 0; dueMs <= forMs; dueMs += intervalMs) {
    const waitMs = startedAt + dueMs - performance.now();
    if (waitMs > 0) await sleep(waitMs, undefined, { signal: scope.signal });
    const [worker, api] = [readUsage(service.worker.pid), readUsage(service.api.pid)];
    // A process that ended by itself fails the scope.
    if (worker === null || api === null) continue;
    samples.push({
      seconds: (performance.now() - startedAt) / 1000,
      ticks: ticks(),
      changes: changes(),
      workerBytes: worker.residentBytes,
      workerAnonymousBytes: worker.anonymousBytes,
      apiBytes: api.residentBytes,
      apiAnonymousBytes: api.anonymousBytes,
    });
  }
  return samples;
}

function summarizeSamples(samples: readonly Sample[], bytes: (sample: Sample) => number) {
  const points = samples.map((sample) => ({
    x: sample.ticks / 1000,
    y: bytes(sample) / 2 ** 20,
  }));
  const boundary = (third: number) => Math.round((points.length * third) / 3);
  const thirds = [0, 1, 2].map((third) => points.slice(boundary(third), boundary(third + 1)));
  return {
    thirdsMiB: thirds.map((third) => median(third.map(({ y }) => y))),
    maxMiB: Math.max(...points.map(({ y }) => y)),
    mebibytesPer1000Ticks: slope(points),
    /** The growth after the first third, in which caches fill and code is compiled. */
    settledMebibytesPer1000Ticks: slope(points.slice(boundary(1))),
  };
}

type Figures = {
  readonly worker: ReturnType<typeof summarizeSamples>;
  readonly api: ReturnType<typeof summarizeSamples>;
  readonly ticks: number;
  readonly changes: number;
  readonly responses: number;
};

function describe(figures: Figures): ReportText {
  const { worker, api, ticks, changes, responses } = figures;
  const processes = [
    { name: 'worker', ...worker },
    { name: 'API', ...api },
  ];
  type Process = (typeof processes)[number];
  const third = (index: number) => (process: Process) =>
    decimal(process.thirdsMiB[index] ?? Number.NaN);
  return [
    tableOf(processes, {
      'resident MiB': ({ name }) => name,
      'first third': third(0),
      middle: third(1),
      'last third': third(2),
      maximum: ({ maxMiB }) => decimal(maxMiB),
      'per 1,000 ticks': (process) => decimal(process.mebibytesPer1000Ticks, 2),
      'after the first third': (process) => decimal(process.settledMebibytesPer1000Ticks, 2),
    }),
    `Ticks with changes: ${ticks.toLocaleString('en')}. ` +
      `Changes: ${changes.toLocaleString('en')}. Responses: ${responses.toLocaleString('en')}.`,
  ];
}
