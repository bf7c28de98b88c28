import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import { startEmbeddedPostgres } from '../../src/embedded-postgres/cluster.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { createPool, type Database } from '../../src/postgres/connection/pool.ts';
import { microsecondsOf } from '../../src/postgres/lists/instants.ts';
import { migrate } from '../../src/postgres/schema/migrate.ts';
import { test } from '../support/fixtures.ts';
import { addCustomer, addOrganization, addPurchases } from '../support/shop.ts';

const readClock = async (pool: Database) => {
  const { rows } = await pool.query(`select ${microsecondsOf('clock_timestamp()')} as now`);
  return rows[0].now as bigint;
};

const it = test.extend('startPostgres', ({ newDirectory }, { onCleanup }) => {
  const directory = join(newDirectory, 'postgres');
  let stop = async () => {};
  onCleanup(() => stop());
  return async () => {
    const server = await startEmbeddedPostgres({ directory, database: 'crm' });
    const pool = createPool(server.url, { max: 2, applicationName: 'standby' });
    stop = async () => {
      await pool.end();
      await server.stop();
      await rm(server.home, { recursive: true, force: true });
    };
    return { ...server, pool };
  };
});

describe('a standby', () => {
  it.for([
    ['has replayed nothing', 'SIGINT'],
    ['has replayed transactions', 'SIGQUIT'],
  ] as const)(
    'shows the instant of its data, not of its clock, if it %s',
    { tags: ['slow'] },
    async ([_, signal], { startPostgres }) => {
      const primary = await startPostgres();
      await migrate(primary.url);
      const organization = await addOrganization(primary.pool);
      const customer = await addCustomer(primary.pool, organization);
      const before = await readClock(primary.pool);
      await addPurchases(primary.pool, organization, customer, 3);
      await primary.pool.end();
      const exited = once(primary.process, 'exit');
      process.kill(primary.process.pid as number, signal);
      await exited;
      const stoppedAt = BigInt(Date.now()) * 1000n;
      await writeFile(join(primary.home, 'cluster', 'standby.signal'), '');

      const { pool } = await startPostgres();
      const engine = createPostgresEngine(pool);
      const stats = await readPurchaseStats(engine, organization, { filters: {}, groupLimit: 1 });
      expect(stats.result.purchaseCount).toBe(3n);
      expect(stats.asOf).toBeLessThanOrEqual(stoppedAt);
      // The time of a checkpoint has no fractions of a second.
      if (signal === 'SIGQUIT') expect(stats.asOf).toBeGreaterThan(before);
      expect(await engine.export(organization, {}, async ({ asOf }) => asOf)).toBe(stats.asOf);
      expect(await engine.freshness(organization)).toBe(stats.asOf);
      const wait = (instant: bigint) =>
        engine.waitUntilFresh(organization, instant, AbortSignal.timeout(1_000));
      await wait(stats.asOf);
      await expect(wait(stoppedAt + 1n)).rejects.toThrow('timeout');
    },
  );
});
