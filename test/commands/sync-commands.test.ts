import { appendFileSync, existsSync, rmSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { formatInstant } from '../../src/domain/instant.ts';
import { encodeId } from '../../src/domain/public-id.ts';
import { organizationDirectory, readCurrent } from '../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../src/purchase-store/format/layout.ts';
import { encodeBatch } from '../../src/purchase-store/format/log.ts';
import { isHealthy } from '../../sync/status/health.ts';
import { readPublishedFiles } from '../../sync/status/published-status.ts';
import type { OrganizationStatus, Status } from '../../sync/status/status.ts';
import { formatStatus } from '../../sync/status/status-table.ts';
import { isolatedTest } from '../support/fixtures.ts';
import { createReaderRole } from '../support/role.ts';
import { addCustomer, addOrganization, addPurchase, addPurchases } from '../support/shop.ts';

const it = isolatedTest
  .extend('organization', ({ shop }) => encodeId('organization', shop.organizationId))
  .extend(
    'buy',
    ({ database, shop, customerId }) =>
      () =>
        addPurchase(database.pool, shop.organizationId, { customer_id: customerId }),
  )
  .extend('status', ({ execute }) => async () => {
    const { output } = await execute('sync', ['status', '--json']);
    return JSON.parse(output);
  });

describe('the commands of sync', () => {
  it('bring every organization up to date in one pass, and show how fresh each is', {
    tags: ['slow'],
  }, async ({ database, buy, execute, organization, status }) => {
    expect(await status()).toMatchObject({
      workers: [],
      organizations: [{ organization, state: 'stopped', purchases: null, changes: null }],
    });
    const name = 'Comércio de Café e Açaí da Conceição & Filhos Ltda. – São Paulo';
    const large = await addOrganization(database.pool, name);
    await addPurchases(database.pool, large, await addCustomer(database.pool, large), 1_234);
    await buy();
    expect((await execute('sync', ['once'])).code).toBe(0);
    expect((await status()).organizations).toMatchObject([
      { purchases: 1, changes: 0, pendingChanges: 0, lagSeconds: 0, failure: null },
      { purchases: 1_234, changes: 0 },
    ]);
    await buy();
    expect((await status()).organizations[0]).toMatchObject({
      purchases: 1,
      changes: 0,
      pendingChanges: 1,
    });
    const once = await execute('sync', ['once', '--organization', organization, '--json']);
    expect(JSON.parse(once.output.slice(once.output.indexOf('{\n')))).toMatchObject({
      organizations: [{ purchases: 1, changes: 1, pendingChanges: 0 }],
    });
    const { code, lines, output } = await execute('sync', ['status']);
    expect(code).toBe(0);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
    expect(output).toContain(encodeId('organization', large));
    expect(lines.filter((line) => line.includes('Comércio de Café e …'))).toHaveLength(1);
    expect(output).toMatch(/ {2}1,234 {2}\d{4}-\S+Z {2}stopped\n/);
    expect(output).toMatch(/ {2}\+1 {2}/);
  });

  it('refuse an unknown command with the list of commands', async ({ execute }) => {
    const { code, lines, output } = await execute('sync', ['resync', '--json']);
    expect(code).toBe(2);
    expect(lines[0]).toBe("error: unknown command 'resync'");
    expect(output).toMatch(/^ {2}rebuild /m);
  });

  it('show the worker and the instant of responses to a role that may only read', {
    tags: ['slow'],
  }, async ({ api, database, directory, execute, program, shop }) => {
    const reader = await createReaderRole(database);
    try {
      const status = async (...args: string[]) => {
        const environment = { DATABASE_URL: reader.url };
        const { code, output } = await execute('sync', ['status', ...args], environment);
        expect(code, output).toBe(0);
        return output;
      };
      expect(await status()).toMatch(/^No worker runs/);
      expect(existsSync(join(directory, 'purchases'))).toBe(false);

      const worker = program('sync/main.ts', ['run']);
      await worker.printed(/"built"/);
      expect(await status('--check')).toContain('live');
      // Refused after several attempts.
      const second = execute('sync', ['once']);
      const { workers, organizations } = JSON.parse(await status('--json'));
      expect(workers).toMatchObject([{ since: null, failure: null }]);
      expect(organizations).toMatchObject([{ purchases: 0, pendingChanges: 0, failure: null }]);
      expect(await status()).toMatch(/^Worker: pid \d+ on .+\.\n/);
      const { code, lines } = await second;
      expect(code).toBe(1);
      expect(lines.at(-1)).toMatch(
        /^Another sync worker writes to .*: stop it to run this command\.$/,
      );

      const get = () => api.get('/v1/purchases', shop.secret);
      const shown = async () => String((await get()).headers['x-data-as-of']);
      const folder = organizationDirectory(directory, shop.organizationId);
      const published = readCurrent(folder, layoutVersion);
      // A poll of the worker raises the instant.
      while ((await shown()) <= formatInstant(published?.asOf ?? 0n)) await sleep(10);
      expect(await worker.end('SIGTERM')).toBe(0);
      const [{ asOf }] = JSON.parse(await status('--json')).organizations;
      while ((await shown()) !== asOf) await sleep(10);
      expect(await status()).toContain(`  ${asOf}  `);
      const checked = await execute('sync', ['status', '--check'], { DATABASE_URL: reader.url });
      expect(checked).toMatchObject({ code: 1, output: expect.stringContaining('stopped') });
    } finally {
      await reader.drop();
    }
  });

  it('show unknown changes if the change log was pruned beyond what is published', {
    tags: ['slow'],
  }, async ({ buy, database, execute, status }) => {
    await buy();
    expect((await execute('sync', ['once'])).code).toBe(0);
    await buy();
    // As a worker of another folder does if this folder is older than a day.
    await database.pool.query(
      `with gone as (delete from purchase_changes)
       insert into purchase_change_pruning (pruned_below)
       values (pg_snapshot_xmax(pg_current_snapshot()))
       on conflict (is_singleton) do update set pruned_below = excluded.pruned_below`,
    );
    const [{ pendingChanges, lagSeconds }] = (await status()).organizations;
    expect(pendingChanges).toBeNull();
    expect(lagSeconds).toBeGreaterThan(0);
  });

  it('report an organization that fails in one line, without a stack trace', {
    tags: ['slow'],
  }, async ({ buy, database, execute, organization }) => {
    await buy();
    await database.pool.query(`
      alter domain instant drop constraint instant_check;
      update purchases set updated_at = 'infinity'`);
    const ended = await execute('sync', ['once']);
    expect(ended.code).toBe(1);
    expect(ended.lines.at(-1)).toBe(
      `${organization}: A purchase holds a value that cannot be copied.`,
    );
    expect(ended.output).not.toMatch(/^\s+at /m);
  });

  it('report in one line that changes are not captured', { tags: ['slow'] }, async ({
    buy,
    database,
    execute,
  }) => {
    await buy();
    await database.pool.query('alter table purchases rename column platform to platform_name');
    const ended = await execute('sync', ['once']);
    expect(ended.code).toBe(1);
    expect(ended.lines.at(-1)).toBe(
      'The column purchases.platform is missing and should be text. Change it back.',
    );
    expect(ended.output).not.toMatch(/^\s+at /m);
  });
});

describe('the status of an organization', () => {
  it.for([
    ['with a base', 0],
    ['without a base', 5_000],
  ] as const)(
    'counts the changes since the last load or compaction, of published ticks only: %s',
    async ([, maxPurchasesWithoutBase], { database, directory, shop, customerId, openWorker }) => {
      const { organizationId } = shop;
      const worker = await openWorker({ maxPurchasesWithoutBase, maxLogRecords: 20 });
      const read = async () =>
        (await readPublishedFiles(directory)([organizationId])).organizations.get(organizationId);
      const add = async (count: number) => {
        await addPurchases(database.pool, organizationId, customerId, count);
        await worker.syncAll();
      };
      expect(await read()).toBeUndefined();
      await add(10);
      expect(await read()).toMatchObject({ purchases: 10, changes: 0 });
      await database.pool.query('delete from purchases where id = (select min(id) from purchases)');
      await add(3);
      const published = await read();
      expect(published).toMatchObject({ purchases: 10, changes: 4 });

      const folder = organizationDirectory(directory, organizationId);
      const log = join(folder, readCurrent(folder, layoutVersion)?.log ?? '');
      const { size } = statSync(log);
      const unpublished = { tick: 1_000_000, records: 1, totalRecords: 100 };
      for (const missing of [0, 10]) {
        const batch = encodeBatch(Buffer.from('d\t1\n'), unpublished);
        appendFileSync(log, batch.subarray(0, batch.length - missing));
        expect(await read()).toEqual(published);
        truncateSync(log, size);
      }
      await add(20);
      expect(await read()).toMatchObject({ purchases: 32, changes: 0 });
      rmSync(join(folder, readCurrent(folder, layoutVersion)?.log ?? ''));
      expect(await read()).toBe('damaged');
    },
  );
});

describe('status --check', () => {
  const worker: Status['workers'][number] = {
    name: 'pid 1',
    shard: { number: 1, of: 1 },
    since: null,
    isCommand: false,
    polledAt: null,
    failure: null,
  };
  const organization: OrganizationStatus = {
    organization: 'org_1',
    name: 'Shop',
    state: 'live',
    percent: null,
    rowsPerSecond: null,
    secondsLeft: null,
    purchases: 1,
    changes: 0,
    fileBytes: 1,
    asOf: null,
    pendingChanges: 0,
    lagSeconds: 9,
    verified: null,
    failure: null,
  };
  const live: Status = {
    workers: [worker],
    organizations: [organization],
    horizonHolders: [],
    captureProblem: null,
    diskProblem: null,
    mapping: null,
    failure: null,
  };
  const problem = { message: 'It fails.', advice: 'Correct it.' };
  const at = '2026-01-01T00:00:00Z';
  const failure = { ...problem, at, attempts: 1, retryAt: at };
  const verified = { at, purchases: 1, differences: 1 };
  const withOrganization = (changed: Partial<OrganizationStatus>): Status => ({
    ...live,
    organizations: [organization, { ...organization, ...changed }],
  });

  it.for([
    ['no worker runs', { ...live, workers: [] }],
    ['a worker fails', { ...live, workers: [{ ...worker, failure: { ...problem, since: at } }] }],
    ['changes are not captured', { ...live, captureProblem: problem }],
    ['the disk is full', { ...live, diskProblem: 'It is full.' }],
    ['the status is incomplete', { ...live, failure: problem }],
    ['an organization has no worker', withOrganization({ state: 'stopped' })],
    ['the files of an organization are damaged', withOrganization({ state: 'damaged' })],
    ['an organization fails', withOrganization({ state: 'failed' })],
    ['a load fails and is retried', withOrganization({ state: 'loading', failure })],
    ['purchases differ', withOrganization({ verified: { ...verified, state: 'differs' } })],
    ['files are unreadable', withOrganization({ verified: { ...verified, state: 'unreadable' } })],
    ['purchases are older than allowed', withOrganization({ lagSeconds: 61 })],
  ] as const)('fails if %s', ([, status]) => {
    expect(isHealthy(status, 60)).toBe(false);
  });

  it.for([
    ['all organizations are live', live],
    ['an organization is loaded', withOrganization({ state: 'loading', lagSeconds: null })],
    ['an organization is rebuilt', withOrganization({ state: 'rebuilding' })],
    [
      'the last verification was equal',
      withOrganization({ verified: { ...verified, state: 'equal' } }),
    ],
  ] as const)('succeeds if %s', ([, status]) => {
    expect(isHealthy(status, 60)).toBe(true);
  });

  const manyShops: Status = {
    ...live,
    organizations: [
      ...Array.from({ length: 2_990 }, (_, index) => ({ ...organization, name: `Shop ${index}` })),
      ...Array.from({ length: 8 }, () => ({ ...organization, state: 'loading' as const })),
      { ...organization, organization: 'org_failed', state: 'failed', failure },
      { ...organization, organization: 'org_late', lagSeconds: 61 },
    ],
  };

  it('lists only organizations that need an operator, and counts all', () => {
    const lines = formatStatus(manyShops, { check: true, maxLagSeconds: 60 }).split('\n');
    expect(lines[1]).toBe(
      '3,000 organizations: 2,991 live, 8 loading, 1 failed. 2 need an operator.',
    );
    expect(
      lines.filter((line) => /^org_\w+ {2}/.test(line)).map((line) => line.split(' ')[0]),
    ).toEqual(['org_failed', 'org_late']);
    expect(lines.at(-1)).toMatch(/^org_failed \(Shop\) failed once/);
    const healthy = { ...manyShops, organizations: manyShops.organizations.slice(0, 2_998) };
    expect(formatStatus(healthy, { check: true, maxLagSeconds: 60 })).toBe(
      'Worker: pid 1.\n2,998 organizations: 2,990 live, 8 loading.',
    );
  });

  it('is bounded to 20 organizations without --all, those that need an operator first', () => {
    const idsOf = (text: string) => text.match(/^org_\w+(?= {2})/gm);
    const text = formatStatus(manyShops, { maxLagSeconds: 60 });
    expect(text).toContain('2 need an operator. 20 are listed; `--all` lists all.\n');
    expect(idsOf(text)?.slice(0, 3)).toEqual(['org_failed', 'org_late', 'org_1']);
    expect(text.match(/ {2}loading$/gm)).toHaveLength(8);
    expect(idsOf(text)).toHaveLength(20);
    expect(idsOf(formatStatus(manyShops, { all: true }))).toHaveLength(3_000);
  });

  it.for(['refuse', 'discard'] as const)(
    'does not wait for a Postgres that does not respond, and prints one line: %s',
    { tags: ['slow'] },
    async (mode, { execute, proxy }) => {
      proxy.mode = mode;
      for (const args of [['status'], ['status', '--check']]) {
        const { code, output } = await execute('sync', args, { DATABASE_URL: proxy.url });
        expect(code).toBe(1);
        expect(output).toMatch(
          /^Cannot use the database .+: The connection to Postgres failed: .+\. Check that it runs and can be reached\.\n$/,
        );
      }
    },
  );

  it('allows any age of purchases without READY_MAX_LAG_SECONDS', () => {
    expect(isHealthy(withOrganization({ lagSeconds: 1e6 }), 0)).toBe(true);
  });
});

describe('npx crm-data-service api', { tags: ['slow'] }, () => {
  it('stops with exit code 0, also during its start', async ({ database, program }) => {
    const running = program('src/commands/api.ts');
    await running.printed(/Listening on http/);
    expect(await running.end('SIGTERM')).toBe(0);
    for (const line of running.output().trim().split('\n')) {
      expect(JSON.parse(line)).toMatchObject({ name: 'api' });
    }

    const starting = program('src/commands/api.ts');
    // It connects to Postgres before it listens.
    const connected = `select from pg_stat_activity where datname = current_database()
      and application_name <> 'test' and backend_type = 'client backend'`;
    while ((await database.pool.query(connected)).rowCount === 0) {
      if (starting.child.exitCode !== null) break;
    }
    expect(await starting.end('SIGTERM')).toBe(0);
  });
});
