import { Registry } from 'prom-client';
import { expect, onTestFinished } from 'vitest';
import { formatInstant } from '../../src/domain/instant.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { listOrganizations } from '../../src/postgres/organizations.ts';
import { readTicks } from '../../src/purchase-store/ticks/published-tick.ts';
import { everyOrganization } from '../../src/purchase-store/ticks/shard.ts';
import { dataFolderId } from '../../sync/files/data-folder.ts';
import { tryWorkerLock } from '../../sync/lock/worker-lock.ts';
import { createWorkerMetrics } from '../../sync/metrics/metrics.ts';
import { readStatus } from '../../sync/status/status.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { createTestWorker, follow } from '../support/sync.ts';
import { it, tables } from './small-shop.ts';

/** A view that a replaced function breaks. */
const broken = tables
  .replace(
    'create view mapped_customers',
    () => `create function store.check_row(bigint) returns bigint language plpgsql stable as $$ begin return $1; end $$;
    create view mapped_customers`,
  )
  .replace('cents / divisor as', 'store.check_row(cents) as');
const setBody = (body: string) =>
  `create or replace function store.check_row(bigint) returns bigint language plpgsql stable as $$ begin ${body}; end $$`;

it('claims instants of organizations that are written directly while a view fails, and no others', {
  tags: ['slow'],
}, async ({ start, query, database: { pool }, directory, api }) => {
  await start('insert into store.orders (id) values (1)', broken);
  const [mapped, direct, empty] = [1n, 2n, await addOrganization(pool)] as const;
  const customerId = await addCustomer(pool, direct);
  await addPurchase(pool, direct, { customer_id: customerId });
  const secrets = new Map<bigint, string>();
  for (const id of [mapped, direct, empty]) secrets.set(id, (await addKey(pool, id)).secret);
  const get = (id: bigint, url = '/v1/purchases', headers = {}) =>
    api.get(url, secrets.get(id) as string, headers);
  const now = async () =>
    (await query(`select to_json(clock_timestamp()) #>> '{}' as now`))[0].now as string;
  const asOf = async (id: bigint, url?: string) => {
    const { headers } = await get(id, url);
    return String(headers['x-data-as-of']);
  };
  /** Reads an organization once it shows an instant. */
  const since = async (id: bigint, instant: string) => {
    for (;;) {
      const response = await get(id, '/v1/purchases', { 'x-min-data-as-of': instant });
      if (response.statusCode === 200) return response.json().data.length as number;
    }
  };
  let worker = await createTestWorker(pool, directory);
  let stop = follow(worker);
  onTestFinished(async () => {
    await stop();
    await worker.close();
  });
  expect(await since(mapped, await now())).toBe(1);
  expect(await since(direct, await now())).toBe(1);

  await query(setBody(`raise insufficient_privilege`));
  const brokenAt = await now();
  await query(`insert into store.orders (id, org) values (2, 1), (3, ${empty})`);
  const engine = createPostgresEngine(pool);
  const expectBounds = async () => {
    await addPurchase(pool, direct, { customer_id: customerId });
    const written = await now();
    await since(direct, written);
    expect((await asOf(direct)) > brokenAt).toBe(true);
    for (const id of [mapped, empty]) {
      expect((await asOf(id)) < brokenAt, `organization ${id}`).toBe(true);
      expect((await asOf(id, '/v1/customers')) < brokenAt).toBe(true);
      const { asOf: ofEngine } = await engine.list(id, { filters: {}, limit: 10 });
      expect(formatInstant(ofEngine) < brokenAt).toBe(true);
    }
    expect((await asOf(direct, '/v1/customers')) > brokenAt).toBe(true);
    const { asOf: ofEngine } = await engine.list(direct, { filters: {}, limit: 10 });
    expect(formatInstant(ofEngine) >= written).toBe(true);
  };
  await expectBounds();
  await stop();
  await worker.close();
  worker = await createTestWorker(pool, directory);
  stop = follow(worker);
  await expectBounds();
  // A new load states the instant of the mapping too.
  for (const id of [mapped, direct]) await worker.rebuild(id);
  await expectBounds();

  await query(setBody('return $1'));
  expect(await since(mapped, await now())).toBe(2);
  expect(await since(empty, await now())).toBe(1);
});

it('shows the age of a mapped organization, and no failure of a worker that polls', async ({
  start,
  query,
  database: { pool, url },
  newDirectory,
}) => {
  await start('insert into store.orders (id) values (1)', broken);
  const direct = 2n;
  await addPurchase(pool, direct, { customer_id: await addCustomer(pool, direct) });
  const worker = await createTestWorker(pool, newDirectory);
  onTestFinished(worker.close);
  const folderId = await dataFolderId(newDirectory);
  const lock = await tryWorkerLock(url, folderId, everyOrganization);
  onTestFinished(async () => lock?.release());
  const read = async () => {
    const { workers, organizations } = await readStatus(
      pool,
      newDirectory,
      folderId,
      await listOrganizations(pool),
    );
    const [mapped, other] = organizations;
    return { worker: workers[0], mapped, other };
  };
  await worker.syncAll();
  await query(setBody(`raise insufficient_privilege`));
  await query(`update mapping_state set as_of = now() - interval '24 minutes'`);
  await addPurchase(pool, direct, { customer_id: await addCustomer(pool, direct) });
  await expect(worker.once([direct])).rejects.toThrow("The shop's tables cannot be mapped");
  const { worker: shown, mapped, other } = await read();
  const [tick] = readTicks(newDirectory);
  expect(shown?.failure).toBeNull();
  expect(shown?.polledAt?.getTime()).toBe(Number((tick?.polledAt ?? 0n) / 1000n));
  expect(mapped?.pendingChanges).toBe(0);
  expect(mapped?.lagSeconds).toBeGreaterThanOrEqual(24 * 60);
  expect(other).toMatchObject({ pendingChanges: 0, lagSeconds: 0 });
  const registry = new Registry();
  createWorkerMetrics(registry).followed({
    state: worker.state,
    instance: null,
    readMapping: async () => null,
  });
  const [, lag] = /^crm_sync_lag_seconds (\S+)$/m.exec(await registry.metrics()) ?? [];
  const atPoll = Number((tick?.polledAt ?? 0n) / 1000n) - Date.parse(mapped?.asOf ?? '');
  expect(Number(lag)).toBeGreaterThanOrEqual(atPoll / 1000);
});
