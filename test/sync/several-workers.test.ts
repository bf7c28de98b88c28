import { readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import {
  organizationDirectory,
  purchasesDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import type { Status } from '../../sync/status/status.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { type Program, runProgram } from '../support/program.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

describe('workers on one data folder', { timeout: 120_000 }, () => {
  let database: TestDatabase;
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let organizations: bigint[];
  const programs: Program[] = [];

  beforeEach(async () => {
    database = await createTestDatabase();
    database.pool.on('error', () => {});
    directory = await temporaryDirectory();
    organizations = [];
    for (let count = 0; count < 4; count += 1) {
      const organization = await addOrganization(database.pool);
      const customer = await addCustomer(database.pool, organization);
      await addPurchase(database.pool, organization, { customer_id: customer });
      organizations.push(organization);
    }
  });
  afterEach(async () => {
    for (const program of programs.splice(0)) await program.end('SIGKILL');
    await database.drop();
    await directory.remove();
  });

  const sync = (...args: string[]): Program => {
    const program = runProgram('sync/main.ts', args, {
      DATABASE_URL: database.url,
      DATA_DIR: directory.path,
    });
    programs.push(program);
    return program;
  };
  const published = () =>
    organizations.filter((id) => readPublished(organizationDirectory(directory.path, id)) !== null);
  const status = async (): Promise<Status> => {
    const program = sync('status', '--json');
    expect(await program.exited()).toBe(0);
    return JSON.parse(program.output());
  };

  it('take turns: the second stands by, and takes over when the first is killed', async () => {
    const first = sync();
    await first.printed(/following changes/);
    const second = sync();
    await second.printed(/is a standby/);
    expect(second.output()).not.toMatch(/following changes/);
    expect((await status()).workers).toMatchObject([{ shard: { number: 1, of: 1 } }]);
    await first.end('SIGKILL');
    await second.printed(/following changes/);
    while (published().length < 4) await sleep(20);
    expect(await second.end('SIGTERM')).toBe(0);
  });

  it('stop working when the lock is lost, and get it again', async () => {
    const worker = sync();
    await worker.printed(/following changes/);
    await database.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where application_name like 'crm-data-service sync lock%'`,
    );
    await worker.printed(/following changes[\s\S]*was lost[\s\S]*following changes/);
    expect(await worker.end('SIGTERM')).toBe(0);
  });

  it('never write where one still may that has lost the lock and does not know', async () => {
    const first = sync();
    await first.printed(/following changes/);
    while (published().length < 4) await sleep(20);
    first.child.kill('SIGSTOP');
    await database.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where application_name like 'crm-data-service sync lock%'`,
    );
    const second = sync();
    await second.printed(/following changes/);
    await second.printed(/only one worker may/);
    first.child.kill('SIGCONT');
    await first.printed(/was lost[\s\S]*is a standby/);
    const [organization] = organizations as [bigint];
    const [customer] = (
      await database.pool.query('select id from customers where organization_id = $1', [
        organization,
      ])
    ).rows;
    await addPurchase(database.pool, organization, { customer_id: customer.id });
    const folder = organizationDirectory(directory.path, organization);
    while (readPublished(folder)?.purchases !== 2) await sleep(20);
    expect(await second.end('SIGTERM')).toBe(0);
  });

  it('share the organizations: each has its own part, and no other division is let in', async () => {
    const first = sync('--shard', '1/2');
    await first.printed(/following changes/);
    const isOfFirst = (id: bigint) => id % 2n === 0n;
    while (!organizations.filter(isOfFirst).every((id) => published().includes(id))) {
      await sleep(20);
    }
    const stranger = sync();
    await stranger.printed(/is a standby/);
    const folders = () => readdirSync(purchasesDirectory(directory.path));
    for (const id of organizations) {
      expect(folders().includes(encodeId('organization', id))).toBe(isOfFirst(id));
    }
    expect((await status()).organizations.map(({ state }) => state === 'stopped')).toEqual(
      organizations.map((id) => !isOfFirst(id)),
    );
    const second = sync('--shard', '2/2');
    await second.printed(/following changes/);
    while (published().length < 4) await sleep(20);
    expect(stranger.output()).not.toMatch(/following changes/);
    expect((await status()).organizations.map(({ state }) => state)).toEqual(Array(4).fill('live'));
  });

  it.each([['1'], ['0/4'], ['5/4'], ['1/0'], ['a/b']])('refuse %s as a shard', async (shard) => {
    const program = sync('run', '--shard', shard);
    expect(await program.exited()).toBe(2);
    expect(program.output()).toMatch(/must look like 1\/4/);
  });

  it('rebuild what an operator asks for, beside a running worker and without one', async () => {
    const [organization] = organizations as [bigint];
    const id = encodeId('organization', organization);
    const generation = () =>
      readPublished(organizationDirectory(directory.path, organization))?.file;
    const alone = sync('rebuild', '--organization', id);
    expect(await alone.exited(), alone.output()).toBe(0);
    const first = generation();
    expect(first).toBeDefined();

    const worker = sync();
    await worker.printed(/following changes/);
    const beside = sync('rebuild', '--organization', id);
    expect(await beside.exited(), beside.output()).toBe(0);
    expect(beside.output()).toMatch(/was rebuilt/);
    expect(worker.output()).toMatch(/a rebuild was requested/);
    expect(generation()).not.toBe(first);
    expect(readdirSync(`${purchasesDirectory(directory.path)}/requests`)).toEqual([]);
  });

  it('rebuild for several operators at once, though no worker follows', async () => {
    const ids = organizations.map((organization) => encodeId('organization', organization));
    const rebuilds = ids.map((id) => sync('rebuild', '--organization', id));
    for (const rebuild of rebuilds) expect(await rebuild.exited(), rebuild.output()).toBe(0);
    expect(published()).toEqual(organizations);
    expect(readdirSync(`${purchasesDirectory(directory.path)}/requests`)).toEqual([]);
  });

  it('say which organization none of them has', async () => {
    const worker = sync('--shard', '1/2');
    await worker.printed(/following changes/);
    const other = organizations.find((id) => id % 2n === 1n) as bigint;
    const rebuild = sync('rebuild', '--organization', encodeId('organization', other));
    expect(await rebuild.exited()).toBe(1);
    expect(rebuild.output()).toMatch(
      /No worker has org_\w+: start the worker of the missing shard/,
    );
    expect(readdirSync(`${purchasesDirectory(directory.path)}/requests`)).toEqual([]);
  });
});
