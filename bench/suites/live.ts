import { cpSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { cpuSecondsOfFamily, parentOf, readUsage } from '../measure/process-usage.ts';
import { inRounds, timed, wall } from '../measure/rounds.ts';
import { median, quantile } from '../measure/statistics.ts';
import {
  createPaths,
  type HttpQuestion,
  httpQuestions,
  listQuestions,
} from '../queries/http-questions.ts';
import { decimal, describeWarnings, tableOf } from '../report/tables.ts';
import { type Scope, withScope } from '../runner/scope.ts';
import { defineSuite } from '../runner/suite.ts';
import { type ApiClient, createClient } from '../setup/api-client.ts';
import { scratchDirectory } from '../setup/postgres.ts';
import { startHttpServer } from '../setup/programs.ts';
import { type RunningService, startRunningService } from '../setup/running-service.ts';
import type { BenchmarkShop } from '../setup/shops.ts';
import { ofAShop, startChanges } from '../setup/steady-changes.ts';

const questions: Readonly<Record<string, HttpQuestion>> = { ...httpQuestions, ...listQuestions };
/** Per second. 0: a delta, but no changes while the questions are asked. */
const rates = [25, 100, 0] as const;
const warmUpMs = 3_000;
const applyingMs = 15_000;
/** With 100 changes a second, 30 are between two questions. */
const applyingEveryMs = 300;

export const live = defineSuite({
  name: 'live',
  description: `what each kind of question takes over HTTP while the shop changes ${rates.slice(0, -1).join(' and ')} purchases a second, beside an API on the same base without changes`,
  isQuick: false,
  defaults: { purchases: 1_000_000, seed: 42, rounds: 21 },
  async run({ options: { purchases, seed, rounds }, scope, server }) {
    const sizes = [{ organizations: 1, purchases, seed }];
    const settings = { api: { RATE_LIMIT_PER_MINUTE: '1000000' } };
    const service = await startRunningService({ scope, server }, sizes, settings);
    const shop = service.shops[0] as BenchmarkShop;
    const still = await startStillApi(scope, service, shop);
    const apply = await measureApplying(scope, service, seed);
    const pathOf = createPaths();
    const measured: Asked[][] = [];
    for (const changesPerSecond of rates) {
      measured.push(
        await withChanges(scope, service, { changesPerSecond, seed }, () =>
          askAll({ still, service, shop, pathOf, rounds, signal: scope.signal }),
        ),
      );
    }
    const figures = Object.keys(questions).map((question, index) => ({
      question,
      ofRates: measured.map((each) => each[index] as Asked),
    }));
    const warnings = service.warnings();
    return {
      text: [
        tableOf(figures, {
          'ms, and the ratio': ({ question }) => question,
          'no changes ever': ({ ofRates }) => decimal(ofRates.at(-1)?.stillMs ?? Number.NaN),
          ...Object.fromEntries(
            rates.map((rate, index) => [
              rate === 0 ? 'none at present' : `${rate} a second`,
              ({ ofRates }: (typeof figures)[number]) => describe(ofRates[index] as Asked),
            ]),
          ),
          '95 % at 100': ({ ofRates }) => decimal(ofRates[1]?.p95Ms ?? Number.NaN),
        }),
        `Each change takes ${decimal(apply.apiMs, 2)} ms of the API's processor time, ${decimal(apply.changesAtOnce, 0)} at once, ` +
          `${decimal(apply.workerMs, 2)} of the worker's, and ${decimal(apply.postgresMs, 2)} of Postgres's, writing it included.`,
        ...describeWarnings(warnings),
      ],
      figures: { questions: figures, apply, warnings },
    };
  },
});

/** The medians and the 95 % of one question, and the differences of its rounds. */
type Asked = {
  readonly stillMs: number;
  readonly liveMs: number;
  readonly p95Ms: number;
  readonly moreMs: number;
};

const describe = ({ liveMs, stillMs, moreMs }: Asked): string =>
  `${decimal(liveMs)}, ${decimal(liveMs / stillMs, 2)}, +${decimal(moreMs)}`;

/** An API on a copy of the files, which no worker changes. */
async function startStillApi(
  scope: Scope,
  { dataDirectory, environment }: RunningService,
  shop: BenchmarkShop,
): Promise<ApiClient> {
  const copy = await scratchDirectory(scope);
  cpSync(dataDirectory, copy, { recursive: true });
  const api = await startHttpServer(scope, 'src/commands/api.ts', {
    ...environment,
    DATA_DIR: copy,
  });
  const client = createClient(scope, api.url);
  await client.get('/v1/purchases?limit=1', shop);
  return client;
}

async function withChanges<Result>(
  { signal }: Scope,
  { database, shops }: RunningService,
  rate: { readonly changesPerSecond: number; readonly seed: number },
  work: (changes: () => number) => Promise<Result>,
): Promise<Result> {
  if (rate.changesPerSecond === 0) return work(() => 0);
  return withScope(signal, async (changing) => {
    const changes = await startChanges(changing, database.pool, shops, { ...rate, mix: ofAShop });
    await sleep(warmUpMs, undefined, { signal });
    return work(changes);
  });
}

type Asking = {
  readonly still: ApiClient;
  readonly service: RunningService;
  readonly shop: BenchmarkShop;
  readonly pathOf: (question: HttpQuestion) => string;
  readonly rounds: number;
  readonly signal: AbortSignal;
};

async function askAll({ still, service, shop, pathOf, rounds, signal }: Asking): Promise<Asked[]> {
  const asked: Asked[] = [];
  for (const question of Object.values(questions)) {
    const ask = (client: ApiClient) => timed(() => client.get(pathOf(question), shop));
    const tasks = { still: ask(still), live: ask(service) };
    const times = await inRounds(tasks, { rounds, warmUps: 3, signal });
    const [ofStill, ofLive] = [times.still.map(wall), times.live.map(wall)];
    asked.push({
      stillMs: median(ofStill),
      liveMs: median(ofLive),
      p95Ms: quantile(ofLive, 0.95),
      moreMs: median(ofLive.map((ms, round) => ms - (ofStill[round] as number))),
    });
  }
  return asked;
}

/** The processor time that changes take, more than the same questions without changes. */
async function measureApplying(scope: Scope, service: RunningService, seed: number) {
  const shop = service.shops[0] as BenchmarkShop;
  const pathOf = createPaths();
  const { rows } = await service.database.pool.query<{ pid: number }>(
    'select pg_backend_pid() as pid',
  );
  const postgres = parentOf((rows[0] as { pid: number }).pid);
  const measure = async (changes: () => number) => {
    const read = () => ({
      api: readUsage(service.api.pid)?.cpuSeconds ?? Number.NaN,
      worker: readUsage(service.worker.pid)?.cpuSeconds ?? Number.NaN,
      postgres: cpuSecondsOfFamily(postgres),
      changes: changes(),
    });
    const before = read();
    let asked = 0;
    const endsAt = performance.now() + applyingMs;
    for (; performance.now() < endsAt; asked += 1) {
      await service.get(pathOf({ path: '/purchases/stats?status=paid' }), shop);
      await sleep(applyingEveryMs, undefined, { signal: scope.signal });
    }
    const after = read();
    const of = (name: keyof typeof before) => after[name] - before[name];
    return {
      api: of('api'),
      worker: of('worker'),
      postgres: of('postgres'),
      changes: of('changes'),
      asked,
    };
  };
  const rate = { changesPerSecond: 100, seed };
  const applied = await withChanges(scope, service, rate, measure);
  // With the same delta.
  const without = await measure(() => 0);
  const more = (name: 'api' | 'worker' | 'postgres') =>
    (1_000 * (applied[name] - (without[name] * applied.asked) / without.asked)) / applied.changes;
  return {
    apiMs: more('api'),
    workerMs: more('worker'),
    postgresMs: more('postgres'),
    changesAtOnce: applied.changes / applied.asked,
  };
}
