import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { chmod, chown, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startEmbeddedPostgres } from '../../src/embedded-postgres/cluster.ts';
import { serverUser } from '../../src/embedded-postgres/server-user.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { createPool } from '../../src/postgres/pool.ts';
import { requireDatabase } from '../../src/postgres/require-database.ts';
import { type Program, runProgram } from '../support/program.ts';
import { addOrganization } from '../support/shop.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const certificate = (file: string) =>
  fileURLToPath(new URL(`../support/certificate/${file}`, import.meta.url));

describe('a server of Postgres', { timeout: 120_000 }, () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let server: Awaited<ReturnType<typeof startEmbeddedPostgres>>;
  const programs: Program[] = [];

  const start = (settings: Record<string, string> = {}) =>
    startEmbeddedPostgres({
      directory: join(directory.path, 'postgres'),
      database: 'crm',
      // Of the first start, where there was one.
      preferredPort: server === undefined ? 0 : Number(new URL(server.url).port),
      settings,
    });
  const inCluster = (file: string) => join(server.home, 'cluster', file);
  beforeAll(async () => {
    directory = await temporaryDirectory();
    server = await start();
    await migrate(server.url);
    const database = createPool(server.url, { max: 1, applicationName: 'test' });
    await addOrganization(database);
    await database.end();
    await server.stop();
    // A server that waits for what a primary would send.
    writeFileSync(inCluster('standby.signal'), '');
    server = await start();
  }, 120_000);
  afterAll(async () => {
    for (const program of programs) {
      if (program.child.exitCode === null) await program.end('SIGKILL');
    }
    await server.stop();
    await rm(server.home, { recursive: true, force: true });
    await directory.remove();
  });

  const run = (path: string, args: string[], waitSeconds: number): Program => {
    const program = runProgram(path, args, {
      DATABASE_URL: server.url,
      DATABASE_WAIT_SECONDS: String(waitSeconds),
      DATA_DIR: join(directory.path, 'data'),
      PORT: '0',
    });
    programs.push(program);
    return program;
  };
  const outcome = async (url: string): Promise<string> => {
    const wait = { forMs: 0, report: () => {} };
    return requireDatabase(url, { isPrimary: true }, wait).then(
      () => 'usable',
      ({ message }) => message,
    );
  };

  it.each([['run'], ['verify']])(
    'that is a read replica is refused in one line by `sync %s`',
    async (command) => {
      const program = run('sync/main.ts', [command], 0);
      expect(await program.exited(), program.output()).toBe(1);
      expect(program.output()).toMatch(
        /^Cannot use the database crm at \S+: It is a read replica, .* Name the primary in DATABASE_URL\. Gave up after 0 s\.\n$/,
      );
    },
  );

  it('is waited for by a worker until it is promoted', async () => {
    const worker = run('sync/main.ts', ['run'], 100);
    await worker.printed(/It is a read replica, or still in recovery/);
    const database = createPool(server.url, { max: 1, applicationName: 'test' });
    await database.query('select pg_promote()');
    await database.end();
    await worker.printed(/"built"/);
    expect(await worker.end('SIGTERM')).toBe(0);
  });

  it('has to prove by its certificate who it is', async () => {
    await server.stop();
    const user = serverUser();
    for (const file of ['server.crt', 'server.key']) {
      copyFileSync(certificate(file), inCluster(file));
      await chmod(inCluster(file), 0o600);
      if (user !== undefined) await chown(inCluster(file), user.uid, user.gid);
    }
    server = await start({ ssl: 'on' });
    expect(await outcome(`${server.url}?sslmode=verify-full`)).toMatch(
      /The certificate of Postgres cannot be verified: self-signed certificate\. Name the certificate authority/,
    );
    const authority = encodeURIComponent(certificate('server.crt'));
    expect(await outcome(`${server.url}?sslmode=verify-full&sslrootcert=${authority}`)).toBe(
      'usable',
    );
    expect(await outcome(`${server.url}?sslmode=no-verify`)).toBe('usable');
    const rules = readFileSync(inCluster('pg_hba.conf'), 'utf8');
    writeFileSync(inCluster('pg_hba.conf'), rules.replaceAll(/^host /gm, 'hostssl '));
    const database = createPool(`${server.url}?sslmode=no-verify`, {
      max: 1,
      applicationName: 'test',
    });
    await database.query('select pg_reload_conf()');
    await database.end();
    await expect
      .poll(() => outcome(server.url), { timeout: 30_000 })
      .toMatch(/Set `sslmode=verify-full` in DATABASE_URL/);
    writeFileSync(inCluster('pg_hba.conf'), rules);
  });

  it('is waited for by the API and by commands while it starts', async () => {
    await server.stop();
    writeFileSync(inCluster('standby.signal'), '');
    // It then says, for as long as it lasts, what a server says that recovers from a crash.
    const neverReady = start({ hot_standby: 'off' }).catch(() => {});
    const api = run('src/commands/api.ts', [], 100);
    const list = run('src/commands/keys.ts', ['list', '--json'], 100);
    for (const program of [api, list]) {
      await program.printed(/Postgres does not accept connections: the database system is/);
    }
    const [postmaster = ''] = readFileSync(inCluster('postmaster.pid'), 'utf8').split('\n');
    process.kill(Number(postmaster), 'SIGQUIT');
    await neverReady;
    rmSync(inCluster('standby.signal'));
    server = await start();
    await api.printed(/Listening on/);
    expect(await list.exited()).toBe(0);
    expect(list.answer()).toBe('[]\n');
    expect(await api.end('SIGTERM')).toBe(0);
  });
});
