import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { inRounds, time, wall } from '../../measure/rounds.ts';
import { type Summary, summaryOf } from '../../measure/statistics.ts';
import type { Scope } from '../../runner/scope.ts';
import { createClient } from '../../setup/api-client.ts';
import { type ProgramEnvironment, startHttpServer, startProgram } from '../../setup/programs.ts';
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
    afterOthers: () => useAllCores(scope, environment),
  };
  const tasks = Object.fromEntries(
    Object.entries(requests).flatMap(([name, request]) =>
      Object.entries(befores).map(([situation, before]) => [
        `${name} ${situation}`,
        async () => {
          await before(request);
          return time(request);
        },
      ]),
    ),
  );
  const times = await inRounds(tasks, { rounds, warmUps: 0, signal: scope.signal });
  const summary = (request: string, situation: keyof typeof befores) =>
    summaryOf(times[`${request} ${situation}`] ?? [], wall);
  return Object.keys(requests).map((request) => ({
    request,
    backToBack: summary(request, 'backToBack'),
    afterPause: summary(request, 'afterPause'),
    afterOthers: summary(request, 'afterOthers'),
  }));
}

/** Other processes write memory on all cores during the pause. */
async function useAllCores(scope: Scope, environment: ProgramEnvironment): Promise<void> {
  const others = Array.from({ length: availableParallelism() }, () =>
    startProgram(scope, 'bench/suites/pages/busy.ts', [String(pauseMs)], environment).done(),
  );
  await Promise.all(others);
}
