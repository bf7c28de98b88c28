import { setTimeout as sleep } from 'node:timers/promises';
import { decodeId } from '../../../src/domain/public-id.ts';
import { coresOf } from '../../measure/process-usage.ts';
import { inRounds, timed, wall } from '../../measure/rounds.ts';
import { median, quantile, summaryOf } from '../../measure/statistics.ts';
import { decimal, describeWarnings, spread, tableOf } from '../../report/tables.ts';
import type { Scope } from '../../runner/scope.ts';
import { defineSuite } from '../../runner/suite.ts';
import { type RunningService, startRunningService } from '../../setup/running-service.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';

/** As many as a key may have (docs/api.md, "Limits"). */
const followersPerOrganization = 10;

/** As long as a request waits: each idle follower has then sent one before the measurement. */
const settlingMs = 30_000;

/** A purchase, and when it was received; monotonic milliseconds. */
type Receipt = { readonly id: bigint; readonly at: number };

export const changes = defineSuite({
  name: 'changes',
  description: 'the change feed: from commit to receipt, changes a second, idle followers',
  isQuick: false,
  defaults: {
    organizations: 101,
    purchasesPerOrganization: 5_000,
    changesPerSecond: 100,
    seconds: 30,
    purchases: 30_000,
    rounds: 100,
    seed: 42,
  },
  async run({ options, scope, server }) {
    const { organizations, purchasesPerOrganization, purchases, rounds, seconds, seed } = options;
    // All followers have one address here.
    const connections = organizations * (followersPerOrganization + 1);
    const sizes = [
      { organizations: 1, purchases, seed: seed + 1 },
      { organizations, purchases: purchasesPerOrganization, seed },
    ];
    const settings = { api: { CONNECTIONS_PER_ADDRESS: String(connections) } };
    const service = await startRunningService({ scope, server }, sizes, settings);
    const [large, changing, ...idle] = service.shops as [
      ...[BenchmarkShop, BenchmarkShop],
      ...BenchmarkShop[],
    ];
    const coresAlone = await coresOf(scope, service.api.pid, seconds);
    const begin = await beginOf(service, changing);
    const lags = await measureReceipts(scope, service, changing, begin, options);
    const rate = await measureRate(service, changing, begin);
    const pages = await measurePages(scope, service, large, rounds);
    await followInIdleness(scope, service, idle);
    await sleep(settlingMs, undefined, { signal: scope.signal });
    const coresOfIdle = (await coresOf(scope, service.api.pid, seconds)) - coresAlone;
    const followers = idle.length * followersPerOrganization;
    const figures = {
      receipts: lags.length,
      lagMs: { median: median(lags), p95: quantile(lags, 0.95), p99: quantile(lags, 0.99) },
      changesPerSecond: rate,
      purchasesChangedAtOnce: purchases,
      ...pages,
      idleFollowers: followers,
      coresOfIdle,
    };
    return {
      text: [
        tableOf([figures], {
          'commit to receipt, median ms': ({ lagMs }) => decimal(lagMs.median, 0),
          'p95 ms': ({ lagMs }) => decimal(lagMs.p95, 0),
          'p99 ms': ({ lagMs }) => decimal(lagMs.p99, 0),
          'changes/s of one follower': () => decimal(rate, 0),
          [`cores of ${followers} idle followers`]: () => decimal(coresOfIdle, 3),
        }),
        tableOf([pages], {
          [`page of 10 of ${decimal(purchases, 0)} changes, ms`]: ({ pageMs }) => spread(pageMs),
          '/v1/me, ms': ({ meMs }) => spread(meMs),
          'difference, ms': ({ differenceMs }) => spread(differenceMs),
        }),
        ...describeWarnings(service.warnings()),
      ],
      figures: { ...figures, warnings: service.warnings() },
    };
  },
});

async function beginOf({ get }: RunningService, shop: BenchmarkShop): Promise<string> {
  const { body } = await get('/v1/purchases/changes', shop);
  return JSON.parse(body).next_cursor;
}

/** Follows the feed from a cursor on, until it has received so many purchases. */
async function follow(
  { get }: RunningService,
  shop: BenchmarkShop,
  begin: string,
  count: number,
): Promise<Receipt[]> {
  const receipts: Receipt[] = [];
  let cursor = begin;
  while (receipts.length < count) {
    const path = `/v1/purchases/changes?wait=30&limit=1000&cursor=${cursor}`;
    const { body } = await get(path, shop);
    const { data, next_cursor: next } = JSON.parse(body);
    const at = performance.now();
    for (const { id } of data) receipts.push({ id: decodeId('purchase', id) as bigint, at });
    cursor = next;
  }
  return receipts;
}

/** The times from the commits of single purchases to their receipt. */
async function measureReceipts(
  { signal }: Scope,
  service: RunningService,
  shop: BenchmarkShop,
  begin: string,
  { changesPerSecond, seconds }: { readonly changesPerSecond: number; readonly seconds: number },
): Promise<number[]> {
  const { pool } = service.database;
  const { rows } = await pool.query<{ id: bigint }>(
    'select id from purchases where organization_id = $1 order by id limit $2',
    [shop.organizationId, Math.ceil(changesPerSecond * seconds)],
  );
  const following = follow(service, shop, begin, rows.length);
  const committedAt = new Map<bigint, number>();
  const writing: Promise<void>[] = [];
  const startedAt = performance.now();
  for (const [index, { id }] of rows.entries()) {
    const waitMs = startedAt + (index * 1000) / changesPerSecond - performance.now();
    if (waitMs > 0) await sleep(waitMs, undefined, { signal });
    const write = pool.query('update purchases set updated_at = now() where id = $1', [id]);
    writing.push(write.then(() => void committedAt.set(id, performance.now())));
  }
  await Promise.all(writing);
  const receipts = await following;
  return receipts.map(({ id, at }) => Math.max(0, at - (committedAt.get(id) ?? Number.NaN)));
}

/** Updates all purchases in one transaction, and waits until they are published. Returns their number. */
async function updateAll(service: RunningService, shop: BenchmarkShop): Promise<number> {
  const { rowCount } = await service.database.pool.query(
    'update purchases set updated_at = now() where organization_id = $1',
    [shop.organizationId],
  );
  const instant = new Date(Date.now() + 1).toISOString();
  await service.get('/v1/purchases/stats', shop);
  while ((await service.get('/v1/purchases/stats', shop)).asOf < instant) await sleep(50);
  return rowCount ?? 0;
}

/** The purchases a second that one follower receives of many changes. */
async function measureRate(
  service: RunningService,
  shop: BenchmarkShop,
  begin: string,
): Promise<number> {
  const count = await updateAll(service, shop);
  const startedAt = performance.now();
  const receipts = await follow(service, shop, begin, count);
  return (receipts.length * 1000) / (performance.now() - startedAt);
}

/** Pages of 10, one after the other, of many purchases that changed at once, beside `/v1/me`. */
async function measurePages(
  { signal }: Scope,
  service: RunningService,
  shop: BenchmarkShop,
  rounds: number,
) {
  let cursor = await beginOf(service, shop);
  await updateAll(service, shop);
  const readPage = async () => {
    const { body } = await service.get(`/v1/purchases/changes?limit=10&cursor=${cursor}`, shop);
    cursor = JSON.parse(body).next_cursor;
  };
  const tasks = { page: timed(readPage), me: timed(() => service.get('/v1/me', shop)) };
  const { page, me } = await inRounds(tasks, { rounds, warmUps: 10, signal });
  const differences = page.map((each, round) => each.wall - (me[round]?.wall ?? Number.NaN));
  return {
    pageMs: summaryOf(page, wall),
    meMs: summaryOf(me, wall),
    differenceMs: summaryOf(differences, (each) => each),
  };
}

/** Repeats requests that wait, until the scope ends. */
async function followInIdleness(
  scope: Scope,
  service: RunningService,
  shops: readonly BenchmarkShop[],
): Promise<void> {
  const followForever = async (shop: BenchmarkShop, begin: string) => {
    let cursor = begin;
    while (!scope.signal.aborted) {
      const path = `/v1/purchases/changes?wait=30&cursor=${cursor}`;
      const { body } = await service.get(path, shop);
      cursor = JSON.parse(body).next_cursor;
    }
  };
  for (const shop of shops) {
    const begin = await beginOf(service, shop);
    for (let index = 0; index < followersPerOrganization; index += 1) {
      followForever(shop, begin).catch((error) => {
        if (!scope.signal.aborted) scope.fail(error);
      });
    }
  }
}
