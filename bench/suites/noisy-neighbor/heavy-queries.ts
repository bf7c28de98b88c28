import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { time } from '../../measure/rounds.ts';
import { quantile } from '../../measure/statistics.ts';
import { decimal, tableOf } from '../../report/tables.ts';
import type { Scope } from '../../runner/scope.ts';
import { createClient } from '../../setup/api-client.ts';
import type { RunningService } from '../../setup/running-service.ts';
import { authorization, type BenchmarkShop } from '../../setup/shops.ts';
import type { Flood, Responses } from './flood.ts';

/** Fewer than the default limit of a key in a minute. */
const requests = 590;
/** As many as the queue has of one key by default. */
const clients = 100;
/** As many as one key may have by default. */
const exportClients = 2;
/** Of each flood: afterwards, it sends no further request. */
const maxFloodMs = 60_000;
const requestIntervalMs = 20;
const idleMs = 5_000;

type FloodKind = {
  readonly requests: number;
  readonly clients: number;
  /** No two requests have the same response in the cache. */
  readonly path: (request: number) => string;
};

// Greater than all values of purchases, so that all match.
const all = (request: number) => `max_value_in_cents=${10 ** 12 + request}`;
const texts = ['maria', 'ana', 'silva', 'souza', 'example'];
const search = (request: number) =>
  `/v1/customers?q=${texts[request % texts.length]}&sort=total_spent&limit=100`;
const report = (request: number) =>
  `/v1/purchases/report?group_by=customer,utm_campaign,month&measures=customer_count,revenue_in_cents&limit=1000&${all(request)}`;
const cohorts = (request: number) =>
  `/v1/purchases/cohorts?created_since=2022-01-01T00:00:00Z&periods=60&${all(request)}`;

const floods: Readonly<Record<string, FloodKind | null>> = {
  nothing: null,
  [`${requests} searches at once`]: { requests, clients: requests, path: search },
  [`${requests} searches, ${clients} at a time`]: { requests, clients, path: search },
  [`${requests} reports, ${clients} at a time`]: { requests, clients, path: report },
  [`${requests} cohorts, ${clients} at a time`]: { requests, clients, path: cohorts },
  [`exports of customers, ${exportClients} at a time`]: {
    requests: 6,
    clients: exportClients,
    path: () => '/v1/customers/export?format=ndjson',
  },
  [`exports of purchases, ${exportClients} at a time`]: {
    requests: 6,
    clients: exportClients,
    path: () => '/v1/purchases/export?format=parquet',
  },
};

const measured = {
  '/v1/me': () => '/v1/me',
  customers: () => '/v1/customers?limit=25',
  'a search': () => '/v1/customers?q=maria&limit=25',
  purchases: (request: number) => `/v1/purchases?limit=25&${all(request)}`,
} as const satisfies Record<string, (request: number) => string>;

/** The times of another organization's requests while one key sends what its limit allows. */
export async function measureHeavyQueries(
  scope: Scope,
  service: RunningService,
  busy: BenchmarkShop,
  other: BenchmarkShop,
) {
  // Its connections are open before a flood: the system drops the first packets of hundreds of new ones.
  const client = createClient(scope, service.api.url);
  const paths = Object.values(measured);
  const phases = [];
  for (const [name, flood] of Object.entries(floods)) {
    await Promise.all(paths.map((path) => client.get(path(0), other)));
    let isOver = false;
    const repeat = async (path: (request: number) => string) => {
      const times: number[] = [];
      while (!isOver) {
        const { wall } = await time(() => client.get(path(times.length), other));
        times.push(wall);
        await sleep(requestIntervalMs);
      }
      return times;
    };
    const requesting = Promise.all(
      Object.entries(measured).map(async ([key, path]) => [key, await repeat(path)] as const),
    );
    let counts: Responses = { answered: 0, refused: 0 };
    const flooding = time(async () => {
      if (flood === null) await sleep(idleMs);
      else counts = await send(scope, service, busy, flood);
    }).finally(() => {
      isOver = true;
    });
    const [times, { wall }] = await Promise.all([requesting, flooding]);
    phases.push({ name, milliseconds: wall, ...counts, times: Object.fromEntries(times) });
  }
  return phases;
}

/** Sends the requests of a flood, and counts the responses. */
async function send(
  scope: Scope,
  { api }: RunningService,
  shop: BenchmarkShop,
  { requests, clients, path }: FloodKind,
): Promise<Responses> {
  const flood: Flood = {
    origin: api.url,
    ...authorization(shop),
    paths: Array.from({ length: requests }, (_, request) => path(request + 1)),
    clients,
    maxMs: maxFloodMs,
  };
  const child = fork(new URL('flood.ts', import.meta.url), { execArgv: ['--import', 'tsx'] });
  scope.afterwards(async () => void child.kill());
  child.send(flood);
  const failed = once(child, 'exit').then(([code]) => {
    throw new Error(`the flood ended with ${code}`);
  });
  const [responses] = await Promise.race([once(child, 'message'), failed]);
  failed.catch(() => {});
  return responses as Responses;
}

type Phase = Awaited<ReturnType<typeof measureHeavyQueries>>[number];

export const heavyQueriesTable = (phases: readonly Phase[]) =>
  tableOf(phases, {
    'one key sends': ({ name }) => name,
    'answered, refused': ({ answered, refused }) => `${answered}, ${refused}`,
    s: ({ milliseconds }) => decimal(milliseconds / 1000),
    ...Object.fromEntries(
      Object.keys(measured).map((name) => [
        `${name} of another, ms p50, p99`,
        ({ times }: Phase) => `${decimalAt(times[name], 0.5)}, ${decimalAt(times[name], 0.99)}`,
      ]),
    ),
  });

const decimalAt = (times: readonly number[] = [], share: number): string =>
  decimal(quantile(times, share), 0);
