import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { chmod } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { describe, expect } from 'vitest';
import { packageFile } from '../../src/process/package-files.ts';
import { mountDisk } from '../support/disk.ts';
import { test } from '../support/fixtures.ts';
import { openPaths } from '../support/open-paths.ts';
import { childrenOf } from '../support/processes.ts';
import { type Program, runProgram } from '../support/program.ts';
import { addOrganization } from '../support/shop.ts';
import { checkedFetch } from '../support/sockets.ts';

const run = promisify(execFile);

const it = test.extend('start', ({ directory }, { onCleanup }) => {
  const programs: Program[] = [];
  onCleanup(async () => {
    await Promise.all(programs.map((program) => program.end('SIGINT')));
  });
  return (environment: Record<string, string> = {}, isMerged = false): Program => {
    const variables = { DATA_DIR: directory, PORT: '0', ...environment };
    const program = runProgram('src/commands/start.ts', [], variables, { isMerged });
    programs.push(program);
    return program;
  };
});

// The tests share the data folder: the first start fills it, which takes longer than all else.
describe('npm start', () => {
  it.beforeAll(async ({ directory }) => {
    // If root runs this test, Postgres runs as another user.
    await chmod(directory, 0o755);
  });

  const processesOf = async (directory: string): Promise<string[]> => {
    const { stdout } = await run('ps', ['-eo', 'pid,args']);
    return stdout.split('\n').filter((line) => line.includes(directory));
  };

  /** Runs the command in a banner, and returns the secret of its key and the URL of the API. */
  const tryBanner = async (program: Program, environment: Record<string, string>) => {
    const [, command = ''] = /^ {2}KEY=(.+)$/m.exec(program.output()) ?? [];
    expect(command).toMatch(/npx crm-data-service keys create --organization org_\w+ --name ".+"/);
    const { stdout } = await run('sh', ['-c', `KEY=${command}; printf %s "$KEY"`], {
      env: { ...process.env, ...environment },
    });
    expect(stdout).toMatch(/^crm_live_\w+$/);
    const curls = program.output().match(/curl -H "Authorization: Bearer \$KEY" "http.+"/g);
    expect(curls).toHaveLength(3);
    const [, url = ''] = /"(http.+?)\/v1\/me"/.exec(program.output()) ?? [];
    return { secret: stdout, url };
  };

  const fails = async (program: Program, line: RegExp) => {
    expect(await program.exited()).toBe(1);
    const lines = program.output().trim().split('\n');
    expect(lines.at(-1)).toMatch(line);
    expect(lines.filter((text) => /^\s+at /.test(text))).toEqual([]);
  };

  it('starts everything in an empty folder, shows writes, and starts again on the same data', {
    tags: ['slow'],
  }, async ({ directory, start }) => {
    const first = start();
    await first.printed(/Ctrl-C stops everything/);
    // Its own files are in the data folder, and readable by their user alone.
    expect(first.output()).not.toContain('Postgres keeps its files in');
    const owned = ['purchases', 'spill', 'postgres.url'].map((name) => join(directory, name));
    expect(owned.flatMap(openPaths)).toEqual([]);
    const curls = [...first.output().matchAll(/curl -H "(.+?): (.+?)" "(.+?)"/g)];
    expect(curls).toHaveLength(3);
    for (const [, header, value, url] of curls) {
      const response = await checkedFetch(url as string, {
        headers: { [header as string]: value as string },
      });
      expect(response.status).toBe(200);
    }
    const [, header, value, url] = curls[2] as RegExpMatchArray;
    const headers = { [header as string]: value as string };
    const customers = await checkedFetch(new URL('/v1/customers?limit=1', url), { headers });
    const [{ html_url: link }] = ((await customers.json()) as { data: [{ html_url: string }] })
      .data;
    const view = await checkedFetch(link, { headers: { accept: 'text/html' } });
    expect(view.status).toBe(200);
    expect(view.headers.get('content-type')).toMatch(/^text\/html/);
    const count = async () => {
      const total = new URL('/v1/purchases/stats', url);
      const response = await checkedFetch(total, { headers });
      return ((await response.json()) as { purchase_count: number }).purchase_count;
    };
    const until = async (expected: number) => {
      while ((await count()) !== expected) await sleep(20);
    };

    const other = start();
    await fails(
      other,
      new RegExp(
        `^crm-data-service start already runs for DATA_DIR ${directory} \\(process ${first.child.pid}\\): ` +
          `the API is at ${new URL(String(url)).origin}\\.`,
      ),
    );

    const databaseUrl = /postgres:\/\/\S+?(?=\.?\n)/.exec(first.output())?.[0] as string;
    const client = new pg.Client({ connectionString: databaseUrl });
    await client.connect();
    const before = await count();
    expect(before).toBeGreaterThan(10_000);
    const { rows } = await client.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents)
       select organization_id, id, 100 from customers where organization_id = 1 limit 3
       returning id`,
    );
    await until(before + 3);
    await client.query(
      `update purchases set (organization_id, customer_id) =
         (select organization_id, id from customers where organization_id = 2 limit 1)
       where id = $1`,
      [rows[0].id],
    );
    await until(before + 2);
    await client.query('delete from purchases where id = $1', [rows[1].id]);
    await until(before + 1);

    // A killed worker is started again.
    const [worker] = childrenOf(first.child.pid, /sync\/main\.js/);
    process.kill(Number(worker), 'SIGKILL');
    await client.query('delete from purchases where id = $1', [rows[2].id]);
    await until(before);
    await client.end();

    const revenue = async () => {
      const response = await checkedFetch(new URL('/v1/purchases/stats?status=paid', url), {
        headers,
      });
      return ((await response.json()) as { revenue_in_cents: number }).revenue_in_cents;
    };
    const earlier = await revenue();
    const [change = ''] =
      /^node -e '[^']+'$/m.exec(readFileSync(packageFile('README.md'), 'utf8')) ?? [];
    await run('sh', ['-c', change.replace('data/', `${directory}/`)]);
    while ((await revenue()) !== earlier + 1) await sleep(20);

    expect(await first.end('SIGINT')).toBe(0);
    expect(await processesOf(directory)).toEqual([]);

    const second = start();
    await second.printed(/Ctrl-C stops everything/);
    expect(second.output()).not.toContain('demo data');
    // The secret is in neither the log nor a file.
    const secret = String(value).replace('Bearer ', '');
    const log = first
      .output()
      .split('\n')
      .filter((line) => line.startsWith('{'));
    expect(log.length).toBeGreaterThan(10);
    expect(log.join()).not.toContain(secret);
    expect(second.output()).not.toContain('crm_live_');
    const found = run('grep', ['-rlF', secret, directory]);
    await expect(found).rejects.toMatchObject({ code: 1, stdout: '' });

    const command = await tryBanner(second, { DATA_DIR: directory });
    const again = new URL('/v1/purchases/stats', command.url);
    for (const key of [secret, command.secret]) {
      const stats = await checkedFetch(again, { headers: { authorization: `Bearer ${key}` } });
      expect(await stats.json()).toMatchObject({ purchase_count: before });
    }
    expect(await second.end('SIGTERM')).toBe(0);
    expect(await processesOf(directory)).toEqual([]);
  });

  it('adds neither demo data nor a key to a database with tables, and prints no password', {
    tags: ['slow'],
  }, async ({ database, start }) => {
    const rows = async () =>
      (await database.pool.query('select from organizations union all select from api_keys'))
        .rowCount;
    const environment = { DATABASE_URL: database.url };
    const empty = start(environment);
    await empty.printed(/Ctrl-C stops everything/);
    expect(empty.output()).toMatch(/no organizations[\s\S]+npx crm-data-service seed /);
    expect(await rows()).toBe(0);
    expect(await empty.end('SIGINT')).toBe(0);

    await addOrganization(database.pool, 'Livraria Ipê');
    const program = start(environment, true);
    await program.printed(/Ctrl-C stops everything/);
    // The banner follows the log lines.
    expect(program.output()).toMatch(/"built"[\s\S]+http:\S+\/docs\.[^{]+$/);
    expect(await rows()).toBe(1);
    expect(program.output()).toContain('Make an API key for Livraria Ipê');
    expect(program.output()).not.toContain('crm_live_');
    expect(program.output()).not.toContain(database.url);
    expect(program.output()).not.toContain('postgres://');
    const { secret, url } = await tryBanner(program, environment);
    const headers = { authorization: `Bearer ${secret}` };
    expect((await checkedFetch(`${url}/v1/me`, { headers })).status).toBe(200);
    // A second Ctrl-C does not interrupt the shutdown.
    program.child.kill('SIGINT');
    program.child.kill('SIGINT');
    expect(await program.exited()).toBe(0);
  });

  it('leaves no process after npm receives SIGTERM', { tags: ['slow'] }, async ({ directory }) => {
    const npm = spawn('npm', ['start'], {
      env: { ...process.env, DATA_DIR: directory, PORT: '0' },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const closed = once(npm, 'close');
    for await (const text of npm.stdout) if (/Ctrl-C stops/.test(String(text))) break;
    npm.kill('SIGTERM');
    await closed;
    expect(await processesOf(directory)).toEqual([]);
  });

  it('stops everything with one line if its Postgres is killed, and its processes if it is killed itself', {
    tags: ['slow'],
  }, async ({ directory, start }) => {
    const program = start();
    await program.printed(/Ctrl-C stops everything/);
    const cluster = join(directory, 'postgres', 'cluster');
    const [postmaster = ''] = readFileSync(join(cluster, 'postmaster.pid'), 'utf8').split('\n');
    process.kill(Number(postmaster), 'SIGKILL');
    await fails(
      program,
      /^The embedded Postgres ended \(SIGKILL\), so everything stops\. Start again/,
    );
    while ((await processesOf(directory)).length > 0) await sleep(50);

    const again = start();
    await again.printed(/Ctrl-C stops everything/);
    expect(again.output()).not.toContain('demo data');
    await again.end('SIGKILL');
    while ((await processesOf(directory)).length > 0) await sleep(50);
  });

  it('stops at once while it adds demo data, of which nothing remains', { tags: ['slow'] }, async ({
    newDirectory,
    start,
  }) => {
    await chmod(newDirectory, 0o755);
    for (const _ of [1, 2]) {
      const program = start({ DATA_DIR: newDirectory });
      await program.printed(/adding demo data/);
      expect(await program.end('SIGINT')).toBe(0);
      expect(program.output()).not.toMatch(/Ctrl-C stops everything|100,000 of 100,000 purchases/);
    }
    expect(await processesOf(newDirectory)).toEqual([]);
  });

  it('names the space that Postgres needs and the free space of a small disk at each start', {
    tags: ['slow'],
  }, async ({ newDirectory, skip, start }) => {
    const disk = await mountDisk(join(newDirectory, 'disk'), 32);
    if (!disk.canBeFilled) skip();
    try {
      for (const _ of [1, 2]) {
        await fails(
          start({ DATA_DIR: disk.path }),
          /^The disk that holds DATA_DIR \S+ is full: 64 MiB are needed, 3\d MiB are free, and 2 MiB must stay free as a reserve\. Free space\.$/,
        );
      }
    } finally {
      await disk.unmount();
    }
  });

  it.for([
    ['PORT is in use', /^Port \d+ of 127\.0\.0\.1 is in use\. Set PORT/, { PORT: 'taken' }],
    ['a setting is invalid', /^PORT is "http" but must be a whole number/, { PORT: 'http' }],
    [
      'DATABASE_URL is no URL',
      /^DATABASE_URL must look like postgres:\/\//,
      { DATABASE_URL: 'nonsense' },
    ],
    [
      'DATABASE_URL cannot be read',
      /^DATABASE_URL cannot be read: .*%23/,
      { DATABASE_URL: 'postgres://me:secret#1@db/shop' },
    ],
    [
      'DATABASE_URL names no server',
      /^Cannot use the database shop at/,
      { DATABASE_URL: 'postgres://me:secret@127.0.0.1:9/shop', DATABASE_WAIT_SECONDS: '0' },
    ],
    // Root may write anywhere, but not below a file.
    [
      'DATA_DIR cannot be written to',
      /^Cannot write to DATA_DIR .*package\.json\/data'\. Something else is at this path/,
      { DATA_DIR: packageFile('package.json/data') },
    ],
  ] as [string, RegExp, Record<string, string>][])(
    'reports in one line that %s',
    { tags: ['slow'] },
    async ([_what, line, environment], { directory, start, onTestFinished }) => {
      const taken = createServer().listen(0, '127.0.0.1');
      onTestFinished(() => void taken.close());
      await once(taken, 'listening');
      const { port } = taken.address() as AddressInfo;
      const isTaken = environment.PORT === 'taken';
      const program = start({ ...environment, ...(isTaken ? { PORT: String(port) } : {}) });
      await fails(program, line);
      expect(program.output()).not.toContain('secret');
      expect(await processesOf(directory)).toEqual([]);
    },
  );
});
