import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { chmod, chown, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect } from 'vitest';
import { startEmbeddedPostgres } from '../../src/embedded-postgres/cluster.ts';
import { serverUser } from '../../src/embedded-postgres/server-user.ts';
import { createPool, type Database } from '../../src/postgres/connection/pool.ts';
import { requireDatabase } from '../../src/postgres/connection/require-database.ts';
import { migrate } from '../../src/postgres/schema/migrate.ts';
import { test } from '../support/fixtures.ts';
import { addOrganization } from '../support/shop.ts';

const certificate = (file: string) =>
  fileURLToPath(new URL(`../support/certificate/${file}`, import.meta.url));

const it = test
  /** A server, first as a read replica of a database with an organization. The tests restart it. */
  .extend('server', { scope: 'file' }, async ({ directory }, { onCleanup }) => {
    const start = (settings: Record<string, string> = {}, preferredPort = 0) =>
      startEmbeddedPostgres({
        directory: join(directory, 'postgres'),
        database: 'crm',
        preferredPort,
        settings,
      });
    let running = await start();
    const { url, home } = running;
    const server = {
      url,
      /** The path of a file of the cluster. */
      file: (name: string) => join(home, 'cluster', name),
      start: async (settings: Record<string, string> = {}) => {
        running = await start(settings, Number(new URL(url).port));
      },
      stop: () => running.stop(),
      withPool: async (work: (pool: Database) => Promise<unknown>, options = '') => {
        const pool = createPool(`${url}${options}`, { max: 1, applicationName: 'test' });
        await work(pool).finally(() => pool.end());
      },
    };
    onCleanup(async () => {
      await server.stop();
      await rm(home, { recursive: true, force: true });
    });
    await migrate(url);
    await server.withPool((pool) => addOrganization(pool));
    await server.stop();
    writeFileSync(server.file('standby.signal'), '');
    await server.start();
    return server;
  })
  .extend(
    'run',
    ({ server, program }) =>
      (path: string, args: string[], waitSeconds: number) =>
        program(path, args, {
          DATABASE_URL: server.url,
          DATABASE_WAIT_SECONDS: String(waitSeconds),
        }),
  );

/** The error of `requireDatabase` without a wait; null if the database is usable. */
const errorOf = (url: string): Promise<string | null> =>
  requireDatabase(url, { isPrimary: true }, { forMs: 0, report: () => {} }).then(
    () => null,
    ({ message }) => message,
  );

// Each test continues with the server of the test before.
describe('a Postgres server', { tags: ['slow'] }, () => {
  it.for(['run', 'verify'])(
    'that is a read replica is rejected in one line by `sync %s`',
    async (command, { run }) => {
      const program = run('sync/main.ts', [command], 0);
      expect(await program.exited(), program.output()).toBe(1);
      const sentence =
        'Cannot use the database crm at \\S+: It is a read replica, .* Name the primary in DATABASE_URL\\.';
      const line = command === 'run' ? `\\{"level":60,.*"msg":"${sentence}"\\}` : sentence;
      expect(program.output()).toMatch(new RegExp(`^${line}\\n$`));
    },
  );

  it('that is a read replica is used by a waiting worker after its promotion', async ({
    server,
    run,
  }) => {
    const worker = run('sync/main.ts', ['run'], 100);
    await worker.printed(/It is a read replica, or still in recovery/);
    await server.withPool((pool) => pool.query('select pg_promote()'));
    await worker.printed(/"built"/);
    expect(await worker.end('SIGTERM')).toBe(0);
  });

  it('must have a certificate that is signed by the authority in DATABASE_URL', async ({
    server,
  }) => {
    await server.stop();
    const user = serverUser();
    for (const file of ['server.crt', 'server.key']) {
      copyFileSync(certificate(file), server.file(file));
      await chmod(server.file(file), 0o600);
      if (user !== undefined) await chown(server.file(file), user.uid, user.gid);
    }
    await server.start({ ssl: 'on' });
    expect(await errorOf(`${server.url}?sslmode=verify-full`)).toMatch(
      /The certificate of Postgres cannot be verified: self-signed certificate\. Name the certificate authority/,
    );
    const authority = encodeURIComponent(certificate('server.crt'));
    expect(await errorOf(`${server.url}?sslmode=verify-full&sslrootcert=${authority}`)).toBeNull();
    expect(await errorOf(`${server.url}?sslmode=no-verify`)).toBeNull();
    const rules = readFileSync(server.file('pg_hba.conf'), 'utf8');
    writeFileSync(server.file('pg_hba.conf'), rules.replaceAll(/^host /gm, 'hostssl '));
    await server.withPool((pool) => pool.query('select pg_reload_conf()'), '?sslmode=no-verify');
    await expect
      .poll(() => errorOf(server.url))
      .toMatch(/Set `sslmode=verify-full` in DATABASE_URL/);
    writeFileSync(server.file('pg_hba.conf'), rules);
  });

  it('that starts is used by the API and by commands after its recovery', async ({
    server,
    run,
  }) => {
    await server.stop();
    writeFileSync(server.file('standby.signal'), '');
    // Without hot_standby, it rejects connections like a server that recovers from a crash.
    const starting = server.start({ hot_standby: 'off' }).catch(() => {});
    const api = run('src/commands/api.ts', [], 100);
    const list = run('src/commands/keys.ts', ['list', '--json'], 100);
    for (const program of [api, list]) {
      await program.printed(/Postgres does not accept connections: the database system is/);
    }
    const [postmaster = ''] = readFileSync(server.file('postmaster.pid'), 'utf8').split('\n');
    process.kill(Number(postmaster), 'SIGQUIT');
    await starting;
    rmSync(server.file('standby.signal'));
    await server.start();
    await api.printed(/Listening on/);
    expect(await list.exited()).toBe(0);
    expect(list.stdout()).toBe('[]\n');
    expect(await api.end('SIGTERM')).toBe(0);
  });
});
