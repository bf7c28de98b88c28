import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import sql from 'sql-template-tag';
import { readTicks } from '../../../src/purchase-store/ticks/published-tick.ts';
import { readUsage } from '../../measure/process-usage.ts';
import { time } from '../../measure/rounds.ts';
import { quantile } from '../../measure/statistics.ts';
import { decimal, describeWarnings, mebibytes, tableOf } from '../../report/tables.ts';
import { defineSuite } from '../../runner/suite.ts';
import { type RunningService, startRunningService } from '../../setup/running-service.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';
import { heavyQueriesTable, measureHeavyQueries } from './heavy-queries.ts';

/** Postgres accepts 64 KiB of coupons. */
const couponBytes = 60_000;
const writers = 4;
const heavyPurchases = 200_000;
const heavyCustomers = 100_000;
/** Purchases that get coupons of backslashes in one statement. COPY escapes each backslash. */
const escapedPurchases = 1_000;
const requestIntervalMs = 20;
const maxRecoveryMs = 600_000;

export const noisyNeighbor = defineSuite({
  name: 'noisy-neighbor',
  description:
    'what the heaviest queries of one key, and large rows of one organization, cost the requests of others',
  isQuick: false,
  defaults: { purchases: 9_000, seed: 42 },
  async run({ options: { purchases, seed }, scope, server }) {
    const sizes = [
      { organizations: 1, purchases, seed },
      { organizations: 1, purchases: 20_000, seed: seed + 1 },
      { organizations: 1, purchases: heavyPurchases, customers: heavyCustomers, seed: seed + 2 },
    ];
    const service = await startRunningService({ scope, server }, sizes);
    const [, other, busy] = service.shops as [BenchmarkShop, BenchmarkShop, BenchmarkShop];
    const heavyQueries = await measureHeavyQueries(scope, service, busy, other);
    const changes = {
      'each purchase in a transaction': () => changeEach(service),
      [`${escapedPurchases.toLocaleString('en')} purchases at once, all backslashes`]: () =>
        changeAtOnce(service),
    };
    const phases = [];
    for (const [name, change] of Object.entries(changes)) {
      phases.push({ name, ...(await measure(service, change)) });
    }
    const warnings = service.warnings();

    return {
      text: [
        heavyQueriesTable(heavyQueries),
        tableOf(phases, {
          '60 KB of coupons for': ({ name }) => name,
          'changes, s': ({ changingMs }) => decimal(changingMs / 1000),
          'then until live, s': ({ recoveryMs }) => decimal(recoveryMs / 1000),
          'own statistics, ms': ({ times }) => medianAndMax(times.own),
          'statistics of another, ms': ({ times }) => medianAndMax(times.statistics),
          '/v1/me of another, ms': ({ times }) => medianAndMax(times.identity),
          'worker, peak': ({ workerBytes }) => mebibytes(workerBytes),
          'API, peak': ({ apiBytes }) => mebibytes(apiBytes),
        }),
        ...describeWarnings(warnings),
      ],
      figures: { heavyQueries, phases, warnings },
    };
  },
});

const medianAndMax = (times: readonly number[]): string =>
  `${decimal(quantile(times, 0.5), 0)}, at most ${decimal(quantile(times, 1), 0)}`;

/** The times of requests while `change` runs, and until the tick includes the organization again. */
async function measure(service: RunningService, change: () => Promise<void>) {
  const { shops, worker, api } = service;
  const [noisy, other] = shops as [BenchmarkShop, BenchmarkShop];
  let isOver = false;
  const repeat = async (shop: BenchmarkShop, path: (request: number) => string) => {
    const times: number[] = [];
    while (!isOver) {
      const { wall } = await time(() => service.get(path(times.length), shop));
      times.push(wall);
      await sleep(requestIntervalMs);
    }
    return times;
  };
  // No response is cached for them.
  const statistics = (request: number) =>
    `/v1/purchases/stats?max_value_in_cents=${10 ** 12 + request}`;
  const requesting = Promise.all([
    repeat(noisy, statistics),
    repeat(other, statistics),
    repeat(other, () => '/v1/me'),
  ]);
  const changing = time(change);
  const recovering = changing.then(() => time(() => untilLive(service, noisy)));
  const ended = recovering.finally(() => {
    isOver = true;
  });
  const [own, ofOther, identity] = await Promise.all([requesting, ended]).then(([all]) => all);
  return {
    changingMs: (await changing).wall,
    recoveryMs: (await recovering).wall,
    times: { own, statistics: ofOther, identity },
    workerBytes: readUsage(worker.pid)?.peakResidentBytes ?? Number.NaN,
    apiBytes: readUsage(api.pid)?.peakResidentBytes ?? Number.NaN,
  };
}

/** Resolves once a tick includes the organization with all changes that are committed now. */
async function untilLive(
  { database: { pool }, dataDirectory, get }: RunningService,
  shop: BenchmarkShop,
): Promise<void> {
  const { rows } = await pool.query<{ now: bigint }>(
    'select (extract(epoch from now()) * 1000000)::bigint as now',
  );
  const now = rows[0]?.now ?? 0n;
  const deadline = performance.now() + maxRecoveryMs;
  while (performance.now() < deadline) {
    const [tick] = readTicks(dataDirectory);
    const isLive =
      tick !== undefined && tick.asOf > now && !(`${shop.organizationId}` in tick.exceptions);
    if (isLive) {
      await get('/v1/purchases/stats', shop);
      return;
    }
    await sleep(requestIntervalMs);
  }
  throw new Error(`the organization did not follow again within ${maxRecoveryMs / 1000} s`);
}

async function idsOf({ database, shops }: RunningService): Promise<bigint[]> {
  const { rows } = await database.pool.query<{ id: bigint }>(
    sql`select id from purchases where organization_id = ${shops[0]?.organizationId} order by id`,
  );
  return rows.map(({ id }) => id);
}

/** Gives each purchase other coupons, which do not compress well. */
async function changeEach(service: RunningService): Promise<void> {
  const ids = await idsOf(service);
  const { pool } = service.database;
  const write = async () => {
    for (let id = ids.pop(); id !== undefined; id = ids.pop()) {
      const code = randomBytes(couponBytes / 2).toString('hex');
      const coupons = JSON.stringify([{ id: '1', code, value: 1, type: 'absolute' }]);
      await pool.query(sql`update purchases set coupons = ${coupons}::jsonb where id = ${id}`);
    }
  };
  await Promise.all(Array.from({ length: writers }, write));
}

async function changeAtOnce(service: RunningService): Promise<void> {
  const ids = (await idsOf(service)).slice(0, escapedPurchases);
  const code = '\\'.repeat(couponBytes / 2);
  const coupons = JSON.stringify([{ id: '1', code, value: 1, type: 'absolute' }]);
  await service.database.pool.query(
    sql`update purchases set coupons = ${coupons}::jsonb where id = any (${ids.map(String)}::bigint[])`,
  );
}
