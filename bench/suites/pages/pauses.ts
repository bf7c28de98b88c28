import { fork } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { packageFile, programArguments } from '../../../src/process/package-files.ts';
import { type Summary, summarize } from '../../measure/statistics.ts';
import type { Scope } from '../../runner/scope.ts';
import { createClient } from '../../setup/api-client.ts';
import { startHttpServer } from '../../setup/programs.ts';
import type { RunningService } from '../../setup/running-service.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';

type Pause = {
  readonly request: string;
  readonly backToBack: Summary;
  readonly afterPause: Summary;
  readonly afterOthers: Summary;
};

const pauseMs = 2_000;
/** Requests before one that is back to back. */
const warmUps = 3;

/** Times of the first request after a pause, of the API and of bare routes in another process. */
export async function measurePauses(
  scope: Scope,
  { get, shops, environment }: Pick<RunningService, 'get' | 'shops' | 'environment'>,
  rounds: number,
): Promise<Pause[]> {
  const shop = shops[0] as BenchmarkShop;
  const bare = await startHttpServer(scope, 'bench/suites/http/bare-api.ts', environment);
  const client = createClient(scope, bare.url);
  let maximum = 10 ** 12;
  const requests: Readonly<Record<string, () => Promise<unknown>>> = {
    'a bare route': () => client.get('/plain', shop),
    '/healthz': () => get('/healthz', shop),
    'a bare route that checks the key': () => client.get('/', shop),
    '/v1/me': () => get('/v1/me', shop),
    'the first page': () => get('/v1/purchases', shop),
    'statistics by campaign': () => {
      maximum += 1;
      const path = '/v1/purchases/stats?group_by=utm_campaign';
      return get(`${path}&max_value_in_cents=${maximum}`, shop);
    },
  };
  const befores = {
    backToBack: async (request: () => Promise<unknown>) => {
      for (let count = 0; count < warmUps; count += 1) await request();
    },
    afterPause: () => sleep(pauseMs),
    afterOthers: useAllCores,
  };
  const times = new Map<string, number[]>();
  for (let round = 0; round < rounds; round += 1) {
    for (const [name, request] of Object.entries(requests)) {
      for (const [situation, before] of Object.entries(befores)) {
        scope.signal.throwIfAborted();
        await before(request);
        const startedAt = performance.now();
        await request();
        const all = times.get(`${name} ${situation}`) ?? [];
        times.set(`${name} ${situation}`, [...all, performance.now() - startedAt]);
      }
    }
  }
  const summary = (request: string, situation: keyof typeof befores) =>
    summarize(times.get(`${request} ${situation}`) ?? []);
  return Object.keys(requests).map((request) => ({
    request,
    backToBack: summary(request, 'backToBack'),
    afterPause: summary(request, 'afterPause'),
    afterOthers: summary(request, 'afterOthers'),
  }));
}

/** Other processes write memory on all cores during the pause. */
async function useAllCores(): Promise<void> {
  const nodeArguments = programArguments('bench/suites/pages/busy.ts');
  const others = Array.from({ length: availableParallelism() }, () =>
    fork(nodeArguments.at(-1) as string, [String(pauseMs)], {
      cwd: packageFile('.'),
      execArgv: nodeArguments.slice(0, -1),
    }),
  );
  await Promise.all(others.map((other) => once(other, 'exit')));
}
