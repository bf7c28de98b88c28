import {
  existsSync,
  mkdirSync,
  readdirSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { decodeId, encodeId } from '../../src/domain/public-id.ts';
import { captureSql } from '../../src/postgres/capture/capture.ts';
import { createPool, type Database, withConnection } from '../../src/postgres/connection/pool.ts';
import {
  sendDamageReport,
  takeDamageReports,
} from '../../src/purchase-store/damage/damage-reports.ts';
import {
  organizationDirectory,
  purchasesDirectory,
} from '../../src/purchase-store/format/current.ts';
import { everyOrganization } from '../../src/purchase-store/ticks/shard.ts';
import { workerSettings } from '../../sync/lock/worker-lock.ts';
import { readWorkerState } from '../../sync/status/worker-status.ts';
import { requestFromWorker, takeRequests } from '../../sync/worker/rebuild-requests.ts';
import { isolatedTest as it } from '../support/fixtures.ts';
import { runProgram } from '../support/program.ts';
import { publishedFiles } from '../support/published-files.ts';
import { addCustomer, addOrganization, addPurchases } from '../support/shop.ts';
import { follow, syncOnce, type TestWorkerOptions } from '../support/sync.ts';

const requestRebuild = (directory: string, organizationId: bigint) => {
  const request = { organizationId, differsFromPostgres: false };
  return requestFromWorker(directory, request, async () => true, AbortSignal.timeout(120_000));
};

function isRequested(directory: string): boolean {
  const requests = join(purchasesDirectory(directory), 'requests');
  return (
    existsSync(requests) && readdirSync(requests).some((name) => name.endsWith('.request.json'))
  );
}

async function isWaitingForLock(database: Database): Promise<boolean> {
  const { rowCount } = await database.query(`select from pg_stat_activity
    where application_name = 'crm-data-service sync' and wait_event_type = 'Lock'
      and datname = current_database()`);
  return rowCount !== 0;
}

describe.concurrent('a rebuild that a command requests from the worker', () => {
  it('is run by the next worker if the first one stops meanwhile', { tags: ['slow'] }, async ({
    database,
    directory,
    openWorker,
  }) => {
    const organization = await addOrganization(database.pool);
    const customer = await addCustomer(database.pool, organization);
    await addPurchases(database.pool, organization, customer, 1_000);
    let isRebuilding = false;
    const options: TestWorkerOptions = {
      loadChunkRows: 40,
      onReport: (_organizationId, { state }) => {
        isRebuilding ||= state === 'rebuilding';
      },
    };
    await syncOnce(database.pool, directory);

    const first = await openWorker(options);
    const stopFirst = follow(first);
    const answer = requestRebuild(directory, organization);
    while (!isRebuilding) await sleep(5);
    await stopFirst();
    await first.close();
    const stopSecond = follow(await openWorker(options));
    expect(await answer).toEqual({ failure: null });
    await stopSecond();
  });

  it('leaves no temporary file of a command that was killed while it wrote the request', {
    tags: ['slow'],
  }, async ({ directory, openWorker }) => {
    const folder = join(purchasesDirectory(directory), 'requests');
    mkdirSync(folder, { recursive: true });
    const [old, recent] = ['old', 'recent'].map((name) => join(folder, `${name}.request.json.tmp`));
    for (const path of [old, recent] as string[]) writeFileSync(path, '{"kind":"reb');
    const longAgo = new Date(Date.now() - 3_600_000);
    utimesSync(old as string, longAgo, longAgo);
    const stop = follow(await openWorker());
    while (existsSync(old as string)) await sleep(20);
    expect(existsSync(recent as string)).toBe(true);
    await stop();
  });

  it('is not hidden by a report of damage that cannot be read', ({ directory }) => {
    sendDamageReport(directory, 7n, 'base-1');
    sendDamageReport(directory, 9n, 'base-2');
    const [first] = readdirSync(join(purchasesDirectory(directory), 'damaged')).sort();
    const id = decodeId('organization', String(first));
    const path = join(purchasesDirectory(directory), 'damaged', String(first));
    rmSync(path);
    mkdirSync(path);
    const failed: string[] = [];
    const reports = takeDamageReports(
      directory,
      () => true,
      (file) => failed.push(file),
    );
    expect(reports.size).toBe(2);
    expect(reports.get(id as bigint)).toBe('CURRENT');
    expect(failed).toEqual([path]);
  });

  it('gets no response if the command removes it before the worker reads it', async ({
    directory,
  }) => {
    const folder = join(purchasesDirectory(directory), 'requests');
    mkdirSync(folder, { recursive: true });
    // The folder lists the link, and reading it finds no file.
    symlinkSync(join(folder, 'removed'), join(folder, 'one.request.json'));
    expect(await takeRequests(directory, everyOrganization, new Map())).toEqual([]);
    expect(readdirSync(folder)).toEqual(['one.request.json']);
  });

  it('is run once, even if the response cannot be written at first', { tags: ['slow'] }, async ({
    database,
    directory,
    openWorker,
  }) => {
    const organization = await addOrganization(database.pool);
    let loads = 0;
    const worker = await openWorker({
      onReport: (_organizationId, { state, progress }) => {
        if (state === 'rebuilding' && progress === null) loads += 1;
      },
    });
    await worker.syncAll();
    const folder = join(purchasesDirectory(directory), 'requests');
    const answer = requestRebuild(directory, organization);
    const requests = () => readdirSync(folder).filter((name) => name.endsWith('.request.json'));
    while (!existsSync(folder) || requests().length === 0) await sleep(5);
    const obstacle = join(
      folder,
      requests()[0]?.replace('.request.json', '.response.json.tmp') ?? '',
    );
    mkdirSync(obstacle);
    const stop = follow(worker);
    while (loads === 0) await sleep(20);
    // The worker removes old temporary files each time it reads requests.
    for (const round of [1, 2]) {
      const draft = join(folder, `round-${round}.request.json.tmp`);
      writeFileSync(draft, '');
      utimesSync(draft, 0, 0);
      while (existsSync(draft)) await sleep(20);
    }
    rmdirSync(obstacle);
    expect(await answer).toEqual({ failure: null });
    expect(loads).toBe(1);
    await stop();
  });

  it('is retried by the worker until it succeeds, and the command gets the first failure', {
    tags: ['slow'],
  }, async ({ database, directory, openWorker, onTestFinished }) => {
    const organization = await addOrganization(database.pool);
    const pool = createPool(database.url, {
      max: 4,
      applicationName: 'test',
      settings: workerSettings,
    });
    onTestFinished(() => pool.end());
    const worker = await openWorker({ database: pool });
    await worker.syncAll();
    const folder = organizationDirectory(directory, organization);
    const before = publishedFiles(folder)?.log;
    const stop = follow(worker);
    await withConnection(database.pool, async (connection) => {
      // The lock is held for longer than the worker waits.
      await connection.query('begin; lock table purchases in access exclusive mode');
      const outcome = await requestRebuild(directory, organization);
      expect(outcome).toMatchObject({
        failure: expect.stringMatching(/^Another transaction keeps a table locked/),
      });
      await connection.query('rollback');
    });
    while (publishedFiles(folder)?.log === before) await sleep(20);
    // A report without a failure is removed.
    const isFailing = () => {
      const state = readWorkerState(directory, everyOrganization);
      return state?.organizations[String(organization)] !== undefined;
    };
    while (isFailing()) await sleep(20);
    await stop();
  });

  it('fails with the reason if changes are not captured, and is run once they are', {
    tags: ['slow'],
  }, async ({ database, directory, shop: { organizationId }, worker, followChanges }) => {
    await worker.syncAll();
    const folder = organizationDirectory(directory, organizationId);
    const before = publishedFiles(folder)?.log;
    await database.pool.query('alter table purchases disable trigger log_deleted_purchases');
    followChanges();
    expect(await requestRebuild(directory, organizationId)).toMatchObject({
      failure: expect.stringMatching(/^Changes are not captured/),
    });
    await database.pool.query(captureSql);
    while (publishedFiles(folder)?.log === before) await sleep(20);
  });

  it('prints one line if the command that runs it loses the lock', { tags: ['slow'] }, async ({
    database,
    directory,
  }) => {
    const organization = encodeId('organization', await addOrganization(database.pool));
    await withConnection(database.pool, async (connection) => {
      await connection.query('begin; lock table purchases in access exclusive mode');
      const command = runProgram('sync/main.ts', ['rebuild', '--organization', organization], {
        DATABASE_URL: database.url,
        DATA_DIR: directory,
      });
      while (!(await isWaitingForLock(database.pool))) await sleep(20);
      await database.pool.query(`select pg_terminate_backend(pid) from pg_stat_activity
        where application_name like 'crm-data-service sync lock%' and datname = current_database()`);
      expect(await command.exited()).toBe(1);
      expect(command.output()).not.toMatch(/^\s+at /m);
      expect(command.output().trim().split('\n').at(-1)).toMatch(
        /^The connection to Postgres that holds the worker's lock was lost\. Run the command again\.$/,
      );
      await connection.query('rollback');
    });
  });

  it('prints one line if the command that runs it is stopped', { tags: ['slow'] }, async ({
    database,
    shop: _,
    program,
  }) => {
    await withConnection(database.pool, async (connection) => {
      await connection.query('begin; lock table purchases in access exclusive mode');
      const command = program('sync/main.ts', ['rebuild']);
      while (!(await isWaitingForLock(database.pool))) await sleep(20);
      expect(await command.end('SIGINT')).toBe(1);
      expect(command.output()).toBe('Stopped before the end of the rebuild.\n');
      await connection.query('rollback');
    });
  });

  it('is run although the command that requested it is stopped', { tags: ['slow'] }, async ({
    directory,
    shop: _,
    program,
  }) => {
    const worker = program('sync/main.ts', ['run']);
    await worker.printed(/"msg":"built"/);
    // It keeps its lock, and carries out no request.
    worker.child.kill('SIGSTOP');
    const command = program('sync/main.ts', ['rebuild']);
    while (!isRequested(directory)) await sleep(20);
    expect(await command.end('SIGINT')).toBe(1);
    expect(command.output()).toBe('Stopped. The worker completes the rebuild nonetheless.\n');
    worker.child.kill('SIGCONT');
    while (isRequested(directory)) await sleep(20);
  });

  it.for(['refuse', 'discard'] as const)(
    'ends the command with one line if Postgres does not respond (%s), and is run later',
    { tags: ['slow'] },
    async (mode, { directory, shop, program, proxy }) => {
      const organization = encodeId('organization', shop.organizationId);
      const worker = program('sync/main.ts', ['run']);
      await worker.printed(/"msg":"built"/);
      // It keeps its lock, and carries out no request.
      worker.child.kill('SIGSTOP');
      const command = program('sync/main.ts', ['rebuild', '--organization', organization], {
        DATABASE_URL: proxy.url,
      });
      while (!isRequested(directory)) await sleep(20);
      proxy.mode = mode;
      proxy.freeze();
      expect(await command.exited()).toBe(1);
      expect(command.output()).toBe(
        'Postgres has not responded for 10 s. ' +
          'The worker keeps the request, and rebuilds once Postgres responds.\n',
      );
      worker.child.kill('SIGCONT');
      while (isRequested(directory)) await sleep(20);
    },
  );
});
