import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { OperatorError } from '../../../src/operator-error.ts';
import { readUsage } from '../../measure/process-usage.ts';
import { median, parts, slope } from '../../measure/statistics.ts';
import type { Plot } from '../../report/plots.ts';
import { complaintsOf, decimal, sparkline } from '../../report/tables.ts';
import type { Scope } from '../../runner/scope.ts';
import type { ReportText, Suite } from '../../runner/suite.ts';
import { type RunningService, startRunningService } from '../../setup/running-service.ts';
import { startChanges } from './steady-changes.ts';

/** The organizations are never still: each has something new at every look of the worker. */
const workerSettings = { SYNC_POLL_INTERVAL_MS: '20' };

export const memory: Suite = {
  name: 'memory',
  description: 'resident memory of worker and API through generation after generation',
  isQuick: false,
  async run(bench) {
    const { organizations = 4, purchasesPerOrganization = 1_000, seed = 42 } = bench.options;
    const {
      changesPerSecond = 20 * organizations,
      writers = 2,
      minutes = 1,
      oldPercent = 10,
    } = bench.options;
    const { scope } = bench;
    if (readUsage(process.pid) === null) {
      throw new OperatorError('This suite reads /proc, which only Linux has.');
    }
    const sizes = { organizations, purchases: purchasesPerOrganization, seed };
    const service = await startRunningService(bench, sizes, workerSettings);
    const rate = { changesPerSecond, writers, oldPercent, seed };
    const changes = await startChanges(scope, service.database.pool, service.shops, rate);
    const reader = startReader(scope, service);
    console.log(`Sampling for ${minutes} min.`);
    const samples = await sample(scope, service, changes.made, minutes * 60_000);
    const figures = {
      worker: judge(samples, ({ workerBytes }) => workerBytes),
      api: judge(samples, ({ apiBytes }) => apiBytes),
      generations: samples.at(-1)?.generations ?? 0,
      changes: changes.made(),
      answers: reader.answers(),
      complaints: service.complaints(),
    };
    return {
      options: {
        organizations,
        purchasesPerOrganization,
        changesPerSecond,
        writers,
        oldPercent,
        minutes,
        seed,
      },
      text: [...describe(samples, figures), ...complaintsOf(figures.complaints)],
      plots: [plot(samples)],
      figures: { ...figures, samples },
    };
  },
};

/** Asks every organization in turn, so that the API follows all their generations. */
function startReader(scope: Scope, service: RunningService): { answers(): number } {
  const paths = ['/v1/purchases/stats?group_by=status', '/v1/purchases?limit=25'];
  let answers = 0;
  const read = async () => {
    for (;;) {
      for (const shop of service.shops) {
        for (const path of paths) {
          const answer = await service.get(path, shop);
          await answer.arrayBuffer();
          if (answer.status !== 200) throw new Error(`GET ${path} was answered ${answer.status}`);
          answers += 1;
        }
        await sleep(100, undefined, { signal: scope.signal });
      }
    }
  };
  const reading = read().catch(scope.fail);
  scope.afterwards(() => reading);
  return { answers: () => answers };
}

type Sample = {
  readonly seconds: number;
  readonly generations: number;
  readonly changes: number;
  /** Resident, and the part of it that no file backs. */
  readonly workerBytes: number;
  readonly workerAnonymousBytes: number;
  readonly apiBytes: number;
  readonly apiAnonymousBytes: number;
};

async function sample(
  scope: Scope,
  { worker, api, countGenerations }: RunningService,
  changes: () => number,
  forMs: number,
): Promise<Sample[]> {
  // Sixty in a minute, some hundreds in an hour.
  const intervalMs = Math.min(10_000, Math.max(forMs / 60, 100));
  const samples: Sample[] = [];
  const generations = countGenerations();
  const startedAt = performance.now();
  for (let dueMs = 0; dueMs <= forMs; dueMs += intervalMs) {
    const waitMs = startedAt + dueMs - performance.now();
    if (waitMs > 0) await sleep(waitMs, undefined, { signal: scope.signal });
    const [ofWorker, ofApi] = [readUsage(worker.pid), readUsage(api.pid)];
    // One that has ended by itself fails the scope, which then says why.
    if (ofWorker === null || ofApi === null) continue;
    samples.push({
      seconds: (performance.now() - startedAt) / 1000,
      generations: generations().generations,
      changes: changes(),
      workerBytes: ofWorker.residentBytes,
      workerAnonymousBytes: ofWorker.anonymousBytes,
      apiBytes: ofApi.residentBytes,
      apiAnonymousBytes: ofApi.anonymousBytes,
    });
  }
  return samples;
}

function judge(samples: readonly Sample[], bytes: (sample: Sample) => number) {
  const points = samples.map((sample) => ({
    x: sample.generations / 1000,
    y: bytes(sample) / 2 ** 20,
  }));
  const thirds = parts(points, 3);
  return {
    thirdsMiB: thirds.map((third) => median(third.map(({ y }) => y))),
    greatestMiB: Math.max(...points.map(({ y }) => y)),
    mebibytesPer1000Generations: slope(points),
    /** Without the first third, in which caches fill and code is compiled. */
    settledMebibytesPer1000Generations: slope(thirds.slice(1).flat()),
  };
}

type Figures = {
  readonly worker: ReturnType<typeof judge>;
  readonly api: ReturnType<typeof judge>;
  readonly generations: number;
  readonly changes: number;
  readonly answers: number;
};

function describe(samples: readonly Sample[], figures: Figures): ReportText {
  const { worker, api, generations, changes, answers } = figures;
  const row = (name: string, judged: ReturnType<typeof judge>) => [
    name,
    ...[...judged.thirdsMiB, judged.greatestMiB].map((value) => decimal(value)),
    decimal(judged.mebibytesPer1000Generations, 2),
    decimal(judged.settledMebibytesPer1000Generations, 2),
  ];
  const thirds = ['first third', 'middle', 'last third', 'greatest'];
  const perThousand = ['per 1,000 generations', 'after the first third'];
  return [
    {
      head: ['resident MiB', ...thirds, ...perThousand],
      rows: [row('worker', worker), row('API', api)],
    },
    `worker  ${sparkline(samples.map(({ workerBytes }) => workerBytes))}`,
    `API     ${sparkline(samples.map(({ apiBytes }) => apiBytes))}`,
    `Generations: ${generations.toLocaleString('en')}. ` +
      `Changes: ${changes.toLocaleString('en')}. Answers: ${answers.toLocaleString('en')}.`,
  ];
}

function plot(samples: readonly Sample[]): Plot {
  const curve = (label: string, bytes: (sample: Sample) => number) => ({
    label,
    points: samples.map((sample) => ({ x: sample.generations, y: bytes(sample) / 2 ** 20 })),
  });
  return {
    kind: 'curves',
    title: 'Resident memory, generation after generation',
    x: { label: 'generations', scale: 'linear' },
    y: { label: 'MiB', scale: 'linear' },
    curves: [
      curve('worker', ({ workerBytes }) => workerBytes),
      curve('API', ({ apiBytes }) => apiBytes),
    ],
  };
}
