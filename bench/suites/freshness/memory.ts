import { setTimeout as sleep } from 'node:timers/promises';
import { readTicks } from '../../../src/purchase-store/ticks/published-tick.ts';
import { readUsage } from '../../measure/process-usage.ts';
import { median } from '../../measure/statistics.ts';
import { createPaths, type HttpQuestion, httpQuestions } from '../../queries/http-questions.ts';
import { describeWarnings, mebibytes, tableOf } from '../../report/tables.ts';
import type { Scope } from '../../runner/scope.ts';
import { defineSuite } from '../../runner/suite.ts';
import { type RunningService, startRunningService } from '../../setup/running-service.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';
import { startChanges } from '../../setup/steady-changes.ts';
import { workAtSteadyRate } from '../../setup/steady-rate.ts';
import { startReaders } from './readers.ts';

/** Each poll of the worker finds changes. */
const settings = { worker: { SYNC_POLL_INTERVAL_MS: '20' } };
/** All kinds of them are asked several times in a minute. */
const questionsPerSecond = 4;

export const memory = defineSuite({
  name: 'memory',
  description:
    'resident memory of worker and API through thousands of ticks, with one larger organization',
  isQuick: false,
  defaults: {
    organizations: 4,
    purchasesPerOrganization: 1_000,
    purchases: 100_000,
    changesPerSecond: 80,
    seconds: 60,
    seed: 42,
  },
  async run({ options, scope, server }) {
    const { organizations, purchasesPerOrganization, purchases, seconds, seed } = options;
    const sizes = [
      { organizations: 1, purchases, seed: seed + 1 },
      { organizations, purchases: purchasesPerOrganization, seed },
    ];
    const service = await startRunningService({ scope, server }, sizes, settings);
    const changes = await startChanges(scope, service.database.pool, service.shops, options);
    // The API follows all organizations.
    startReaders(scope, service, 1);
    startQuestions(scope, service, service.shops[0] as BenchmarkShop);
    console.log(`Sampling for ${seconds} s.`);
    const tick = () => readTicks(service.dataDirectory)[0]?.tick ?? 0;
    const firstTick = tick();
    const samples = await sample(scope, service, seconds * 1000);
    const processes = [
      { name: 'worker', ...summarize(samples.map(({ worker }) => worker)) },
      { name: 'API', ...summarize(samples.map(({ api }) => api)) },
    ];
    const figures = { processes, ticks: tick() - firstTick, changes: changes() };
    const warnings = service.warnings();
    return {
      text: [
        tableOf(processes, {
          'resident memory': ({ name }) => name,
          'first third': ({ thirds }) => mebibytes(thirds[0]),
          middle: ({ thirds }) => mebibytes(thirds[1]),
          'last third': ({ thirds }) => mebibytes(thirds[2]),
          maximum: ({ max }) => mebibytes(max),
        }),
        `Ticks: ${figures.ticks.toLocaleString('en')}. Changes: ${figures.changes.toLocaleString('en')}.`,
        ...describeWarnings(warnings),
      ],
      figures: { ...figures, warnings, samples },
    };
  },
});

/** Asks an organization each kind of question in turn until the scope ends. */
function startQuestions(scope: Scope, { get }: RunningService, shop: BenchmarkShop): void {
  const pathOf = createPaths();
  const questions = Object.values(httpQuestions);
  const rate = { workers: 1, intervalMs: 1_000 / questionsPerSecond };
  workAtSteadyRate(scope, rate, async (_worker, turn) => {
    await get(pathOf(questions[turn % questions.length] as HttpQuestion), shop);
    return 1;
  });
}

type Sample = { readonly worker: number; readonly api: number };

/** The resident bytes of both processes at regular intervals. */
async function sample(scope: Scope, service: RunningService, forMs: number): Promise<Sample[]> {
  // Sixty in a minute, some hundreds in an hour.
  const intervalMs = Math.min(10_000, Math.max(forMs / 60, 100));
  const samples: Sample[] = [];
  for (let sampledMs = 0; sampledMs <= forMs; sampledMs += intervalMs) {
    samples.push({
      worker: readResidentBytes(service.worker.pid),
      api: readResidentBytes(service.api.pid),
    });
    await sleep(intervalMs, undefined, { signal: scope.signal });
  }
  return samples;
}

const readResidentBytes = (pid: number): number => readUsage(pid)?.residentBytes ?? Number.NaN;

/** In the first third, caches fill and code is compiled. */
function summarize(bytes: readonly number[]) {
  const boundary = (third: number) => Math.round((bytes.length * third) / 3);
  const medianOf = (third: number) => median(bytes.slice(boundary(third), boundary(third + 1)));
  return { thirds: [medianOf(0), medianOf(1), medianOf(2)] as const, max: Math.max(...bytes) };
}
