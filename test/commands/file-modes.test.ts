import { chmodSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect } from 'vitest';
import { isolatedTest as it } from '../support/fixtures.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { type Program, runProgram } from '../support/program.ts';
import { addCustomer, addOrganization, addPurchases } from '../support/shop.ts';

/** Every path below a folder that others than its owner have rights to. */
function openPaths(folder: string): string[] {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return [folder, ...names.map((name) => join(folder, name))].filter(
    // Files under way are renamed and removed meanwhile.
    (path) => ((statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & 0o077) !== 0,
  );
}

describe('what the service writes to the data folder', { timeout: 120_000 }, () => {
  let data: string;
  const programs: Program[] = [];
  it.beforeEach(async ({ directory }) => {
    // Where root runs this, Postgres runs as another user.
    chmodSync(directory, 0o755);
    data = join(directory, 'deep', 'data');
  });
  afterEach(async () => {
    for (const program of programs.splice(0)) {
      if (program.child.exitCode === null) await program.end('SIGINT');
    }
  });
  const run = (path: string, args: string[], environment: Record<string, string> = {}): Program => {
    const program = runProgram(path, args, { DATA_DIR: data, PORT: '0', ...environment });
    programs.push(program);
    return program;
  };
  const privatePaths = () => ['purchases', 'spill', 'postgres.url'].map((name) => join(data, name));
  const openOnes = () =>
    privatePaths().flatMap((path) =>
      statSync(path).isDirectory() ? openPaths(path) : statSync(path).mode & 0o077 ? [path] : [],
    );

  it('is readable by its user alone, and what an earlier version left open is closed', async () => {
    const first = run('src/commands/start.ts', []);
    await first.printed(/Ctrl-C stops everything/);
    // Its own files are where its user reaches them.
    expect(first.output()).not.toContain('Postgres keeps its files in');
    await first.printed(/"msg":"built"[\s\S]*"msg":"built"/);
    for (const command of ['rebuild', 'verify']) {
      expect(await run('sync/main.ts', [command]).exited()).toBe(0);
    }
    expect(openOnes()).toEqual([]);
    expect(await first.end('SIGINT')).toBe(0);

    const open = (path: string) => chmodSync(path, statSync(path).isDirectory() ? 0o755 : 0o644);
    for (const path of privatePaths().slice(0, 2)) {
      open(path);
      if (!statSync(path).isDirectory()) continue;
      const names = readdirSync(path, { recursive: true, encoding: 'utf8' });
      for (const name of names) open(join(path, name));
    }
    const second = run('src/commands/start.ts', []);
    await second.printed(/Ctrl-C stops everything/);
    expect(second.output()).not.toContain('Postgres keeps its files in');
    while (openOnes().length > 0) await sleep(50);
    expect(await second.end('SIGINT')).toBe(0);
  });

  it('is readable by its user alone where API and worker run apart', async () => {
    const database: TestDatabase = await createTestDatabase();
    try {
      const organization = await addOrganization(database.pool);
      const customer = await addCustomer(database.pool, organization);
      await addPurchases(database.pool, organization, customer, 10);
      const environment = { DATABASE_URL: database.url };
      const api = run('src/commands/api.ts', [], environment);
      await api.printed(/Listening on http/);
      const worker = run('sync/main.ts', ['run'], environment);
      await worker.printed(/"msg":"built"/);
      expect(['purchases', 'spill'].flatMap((name) => openPaths(join(data, name)))).toEqual([]);
      await api.end('SIGINT');
      await worker.end('SIGINT');
    } finally {
      await database.drop();
    }
  });
});
