import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DuckDBInstance } from '@duckdb/node-api';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createInstance } from '../../src/duckdb/connection.ts';
import { withConnection } from '../../src/postgres/pool.ts';
import { createIdleFiles } from '../../sync/files/idle-files.ts';
import { createReplicator, type Replicator } from '../../sync/schedule/replicator.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { type PostgresServer, startPostgresServer } from '../support/postgres-server.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';

// What a crash takes is what was not written to the disk yet.
describe('a Postgres that crashes', { timeout: 120_000 }, () => {
  const { signal } = new AbortController();
  let directory: string;
  let dataDirectory: string;
  let postgres: PostgresServer;
  let instance: DuckDBInstance;
  let sync: Replicator;
  let organization: bigint;
  let customer: bigint;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'crm-data-service-test-'));
    dataDirectory = join(directory, 'data');
    postgres = await startPostgresServer(directory, { wal_writer_delay: '10s' });
    postgres.pool.on('error', () => {});
    organization = await addOrganization(postgres.pool);
    customer = await addCustomer(postgres.pool, organization);
    instance = await createInstance({
      threads: 1,
      memoryLimit: '256MiB',
      spillDirectory: join(directory, 'spill'),
    });
    sync = createReplicator({
      organizationId: organization,
      database: postgres.pool,
      instance,
      dataDirectory,
      dataFolderId: randomUUID(),
      log: pino({ level: 'silent' }),
      idleFiles: createIdleFiles(1),
    });
    await sync.build('load', signal, () => {});
  });
  afterEach(async () => {
    await sync.close();
    instance.closeSync();
    await postgres.remove();
    await rm(directory, { recursive: true, force: true });
  });

  const add = (cents: number, on: Parameters<typeof addPurchase>[0] = postgres.pool) =>
    addPurchase(on, organization, { customer_id: customer, purchase_value_in_cents: cents });
  /** What readers see, brought up to date. */
  const values = async (): Promise<bigint[]> => {
    await sync.run(signal);
    const reader = await createTestDuckDBEngine(dataDirectory);
    const { result } = await reader.list(organization, { filters: {}, limit: 100 });
    await reader.close();
    return result.purchases
      .map(({ purchase_value_in_cents: cents }) => cents)
      .sort((a, b) => Number(a - b));
  };

  it('may give the number of a transaction that was rolled back to another, which is not missed', async () => {
    await add(1);
    await withConnection(postgres.pool, async (connection) => {
      for (let count = 0; count < 20; count += 1) {
        await connection.query('begin; select pg_current_xact_id(); rollback');
      }
    });
    expect(await values()).toEqual([1n]);
    await postgres.crash();
    await add(2);
    await add(3);
    expect(await values()).toEqual([1n, 2n, 3n]);
  });

  it('forgets nothing that was shown, not even what was committed without waiting for the disk', async () => {
    await add(1);
    await withConnection(postgres.pool, async (connection) => {
      await connection.query('set synchronous_commit = off');
      for (let cents = 2; cents <= 4; cents += 1) await add(cents, connection);
    });
    expect(await values()).toEqual([1n, 2n, 3n, 4n]);
    await postgres.crash();
    const { rows } = await postgres.pool.query('select count(*) from purchases');
    expect(rows).toEqual([{ count: 4n }]);
    await add(9);
    expect(await values()).toEqual([1n, 2n, 3n, 4n, 9n]);
  });
});
