import { existsSync, readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { shardOption } from '../../src/commands/command-line.ts';
import { encodeId } from '../../src/domain/public-id.ts';
import {
  organizationDirectory,
  purchasesDirectory,
} from '../../src/purchase-store/format/current.ts';
import type { Status } from '../../sync/status/status.ts';
import { test } from '../support/fixtures.ts';
import { publishedFiles } from '../support/published-files.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';

const it = test
  /** Three organizations with a purchase each, which all tests share. */
  .extend('organizations', { scope: 'file' }, async ({ database: { pool } }) => {
    const organizations: bigint[] = [];
    for (let count = 0; count < 3; count += 1) {
      const id = await addOrganization(pool);
      await addPurchase(pool, id, { customer_id: await addCustomer(pool, id) });
      organizations.push(id);
    }
    return organizations;
  })
  /** Runs a command of the worker. The folder comes first: it is removed after the programs end. */
  .extend(
    'sync',
    ({ newDirectory, program }) =>
      (...args: string[]) =>
        program('sync/main.ts', args, { DATA_DIR: newDirectory }),
  )
  .extend('status', ({ sync }) => async (): Promise<Status> => {
    const command = sync('status', '--json');
    expect(await command.exited(), command.output()).toBe(0);
    return JSON.parse(command.stdout());
  })
  /** The name of the published log, which a rebuild replaces. */
  .extend('publishedLog', ({ newDirectory }) => (id: bigint) => {
    return publishedFiles(organizationDirectory(newDirectory, id))?.log ?? null;
  })
  .extend('untilAllPublished', ({ publishedLog }) => async (organizations: readonly bigint[]) => {
    while (organizations.some((id) => publishedLog(id) === null)) await sleep(20);
  })
  .extend('openRequests', ({ newDirectory }) => () => {
    const folder = `${purchasesDirectory(newDirectory)}/requests`;
    // The first request creates it.
    return existsSync(folder) ? readdirSync(folder) : [];
  })
  /** Ends the connections that hold the locks of workers. */
  .extend('endLockConnections', ({ database }) => () => {
    return database.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where application_name like 'crm-data-service sync lock%' and datname = current_database()`,
    );
  });

describe('workers on one data folder', () => {
  it('are one active worker and a standby, which takes over if the active worker is killed', async ({
    organizations,
    sync,
    status,
    untilAllPublished,
  }) => {
    const first = sync();
    await first.printed(/following changes/);
    const second = sync();
    await second.printed(/is a standby/);
    expect(second.output()).not.toMatch(/following changes/);
    expect((await status()).workers).toMatchObject([{ shard: { number: 1, of: 1 } }]);
    await first.end('SIGKILL');
    await second.printed(/following changes/);
    await untilAllPublished(organizations);
    expect(await second.end('SIGTERM')).toBe(0);
  });

  it('lock the data folder again after the connection that holds the lock is lost', {
    tags: ['slow'],
  }, async ({ sync, endLockConnections }) => {
    const worker = sync();
    await worker.printed(/following changes/);
    await endLockConnections();
    await worker.printed(/following changes[\s\S]*was lost[\s\S]*following changes/);
    expect(await worker.end('SIGTERM')).toBe(0);
  });

  it('publish the organizations of their shard, and refuse workers with another number of shards', {
    tags: ['slow'],
  }, async ({ newDirectory, organizations, sync, status, untilAllPublished }) => {
    const isOfFirst = (id: bigint) => id % 2n === 0n;
    const first = sync('--shard', '1/2');
    await first.printed(/following changes/);
    await untilAllPublished(organizations.filter(isOfFirst));
    const withoutShard = sync();
    await withoutShard.printed(/is a standby/);
    const folders = readdirSync(purchasesDirectory(newDirectory));
    for (const id of organizations) {
      expect(folders.includes(encodeId('organization', id))).toBe(isOfFirst(id));
    }
    expect((await status()).organizations.map(({ state }) => state === 'stopped')).toEqual(
      organizations.map((id) => !isOfFirst(id)),
    );
    const second = sync('--shard', '2/2');
    await second.printed(/following changes/);
    await untilAllPublished(organizations);
    expect(withoutShard.output()).not.toMatch(/following changes/);
    expect((await status()).organizations.map(({ state }) => state)).toEqual(Array(3).fill('live'));
  });

  it('refuse a shard that is malformed or out of range with exit code 2', {
    tags: ['slow'],
  }, async ({ sync }) => {
    const command = sync('run', '--shard', '5/4');
    expect(await command.exited()).toBe(2);
    expect(command.output()).toMatch(/must look like 1\/4/);
    for (const text of ['1', '0/4', '1/0', 'a/b', '1/2/3', '']) {
      expect(() => shardOption(text), text).toThrow('must look like 1/4');
    }
    expect(shardOption('4/4')).toEqual({ number: 4, of: 4 });
  });

  it('rebuild an organization on request, with and without a running worker', {
    tags: ['slow'],
  }, async ({ organizations: [organization = 0n], sync, publishedLog, openRequests }) => {
    const id = encodeId('organization', organization);
    const withoutWorker = sync('rebuild', '--organization', id);
    expect(await withoutWorker.exited(), withoutWorker.output()).toBe(0);
    const first = publishedLog(organization);
    expect(first).not.toBeNull();

    const worker = sync();
    await worker.printed(/following changes/);
    const withWorker = sync('rebuild', '--organization', id);
    expect(await withWorker.exited(), withWorker.output()).toBe(0);
    expect(withWorker.output()).toMatch(/was rebuilt/);
    expect(worker.output()).toMatch(/a rebuild was requested/);
    expect(publishedLog(organization)).not.toBe(first);
    expect(openRequests()).toEqual([]);
  });

  it('are not needed by rebuild commands that start at the same time', { tags: ['slow'] }, async ({
    organizations,
    sync,
    publishedLog,
    openRequests,
  }) => {
    const rebuilt = organizations.slice(1);
    const rebuilds = rebuilt.map((id) =>
      sync('rebuild', '--organization', encodeId('organization', id)),
    );
    for (const rebuild of rebuilds) expect(await rebuild.exited(), rebuild.output()).toBe(0);
    expect(organizations.filter((id) => publishedLog(id) !== null)).toEqual(rebuilt);
    expect(openRequests()).toEqual([]);
  });

  it('cause an error of a rebuild command if the shard of the organization has no worker', {
    tags: ['slow'],
  }, async ({ organizations, sync, openRequests }) => {
    const worker = sync('--shard', '1/2');
    await worker.printed(/following changes/);
    const ofSecondShard = organizations.find((id) => id % 2n === 1n) as bigint;
    const rebuild = sync('rebuild', '--organization', encodeId('organization', ofSecondShard));
    expect(await rebuild.exited()).toBe(1);
    expect(rebuild.output()).toMatch(
      /No worker has org_\w+: start the worker of the missing shard/,
    );
    expect(openRequests()).toEqual([]);
  });
});
