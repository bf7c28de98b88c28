import { chmod, readFile } from 'node:fs/promises';
import { dirname, join, normalize } from 'node:path';
import { describe, expect } from 'vitest';
import { commands } from '../../src/commands/commands.ts';
import { packageFile } from '../../src/process/package-files.ts';
import { test } from '../support/fixtures.ts';
import { packAndInstall } from '../support/installed-package.ts';
import { commandLine, runProgram } from '../support/program.ts';
import { checkedFetch } from '../support/sockets.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const it = test
  // biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from this pattern.
  .extend('installed', { scope: 'file' }, async ({}: object, { onCleanup }) => {
    const { path, remove } = await temporaryDirectory();
    onCleanup(remove);
    return packAndInstall(path);
  })
  /** Runs a command in the folder of the installed package, and returns the lines that it prints. */
  .extend('run', ({ installed, program }) => async (...args: string[]) => {
    const running = program(installed.commandLine, args, {}, { cwd: installed.folder });
    expect(await running.exited(), running.output()).toBe(0);
    return running.stdout().trim().split('\n');
  });

/** The first query of the README. */
const firstQuestion = '/v1/purchases/stats?status=paid&group_by=utm_campaign&group_limit=5';

const ask = async (url: string, secret: string): Promise<Record<string, unknown>> => {
  const headers = { authorization: `Bearer ${secret}` };
  const response = await checkedFetch(`${url}${firstQuestion}`, { headers });
  expect(response.status).toBe(200);
  return response.json() as Promise<Record<string, unknown>>;
};

describe('the package that npm pack makes', { tags: ['slow'] }, () => {
  it('has programs, page, migrations and documents, and no sources, tests or data', ({
    installed: { files },
  }) => {
    expect(files).toEqual(
      expect.arrayContaining([
        ...['src/commands/crm-data-service.cjs', 'dist/src/commands/main.js', 'dist/sync/main.js'],
        ...['src/page/page.html', 'src/migrations/001.do.organizations.sql', 'LICENSE'],
        ...['README.md', 'CHANGELOG.md', 'docs/api.md', 'docs/sql/roles.sql'],
      ]),
    );
    const documents = /(^|\/)\w+\.md$/;
    const unexpected = files.filter(
      (path) =>
        /\.tsbuildinfo$|(^|\/)\.env$|^(src|sync)\/.*\.tsx?$/.test(path) ||
        (/^(test|bench|data|sync)\//.test(path) && !documents.test(path)),
    );
    expect(unexpected).toEqual([]);
  });

  it('has the files to which its documents link', async ({ installed: { files } }) => {
    const missing: string[] = [];
    for (const path of files.filter((name) => name.endsWith('.md'))) {
      const text = await readFile(packageFile(path), 'utf8');
      for (const [, link = ''] of text.matchAll(/\]\((?!\w+:)([^)#\s]+)/g)) {
        const target = normalize(join(dirname(path), link));
        const isPacked = files.some((name) => name === target || name.startsWith(`${target}/`));
        if (!isPacked) missing.push(`${path} ${link}`);
      }
    }
    expect(missing).toEqual([]);
  });

  it('answers the first question with its own commands, in another folder', async ({
    installed,
    program,
    run,
  }) => {
    const [seeded = ''] = await run(
      ...['seed', '--organizations', '1', '--customers', '20', '--purchases', '300'],
    );
    const [, secret = ''] = seeded.split(/ +/);
    const [{ purchases }] = JSON.parse(
      (await run('sync', 'once', '--json')).join('\n'),
    ).organizations;
    expect(purchases).toBe(300);
    const api = program(installed.commandLine, ['api'], {}, { cwd: installed.folder });
    const [, url = ''] = await api.printed(/Listening on (http:\S+?)"/);
    const { purchase_count: count } = await ask(url, secret);
    expect(count).toBeGreaterThan(0);
    for (const path of ['/', '/assets/page.css', '/assets/preact.js', '/docs', '/openapi.json']) {
      const page = await checkedFetch(`${url}${path}`, { headers: { accept: 'text/html' } });
      expect(page.status, path).toBe(200);
    }
  });

  it('starts everything in an empty folder, where it keeps the data', async ({
    installed,
    onTestFinished,
  }) => {
    // If root runs this test, Postgres runs as another user.
    await chmod(dirname(installed.folder), 0o755);
    const running = runProgram(
      installed.commandLine,
      ['start'],
      { PORT: '0' },
      { cwd: installed.folder },
    );
    onTestFinished(async () => {
      await running.end('SIGINT');
    });
    await running.printed(/Ctrl-C stops everything/);
    const [, url = '', secret = ''] =
      /The API is at (http:\S+?),[\s\S]+ (crm_live_\w+)/.exec(running.output()) ?? [];
    const { purchase_count: count, groups } = await ask(url, secret);
    expect(count).toBeGreaterThan(30_000);
    expect(groups).toHaveLength(5);
    const status = runProgram(
      installed.commandLine,
      ['sync', 'status', '--check'],
      {},
      { cwd: installed.folder },
    );
    expect(await status.exited(), status.output()).toBe(0);
    expect(await readFile(join(installed.folder, 'data/postgres.url'), 'utf8')).toContain('/crm');
  });
});

describe('crm-data-service', () => {
  it('lists its commands, and prints its version', async ({ program }) => {
    const output = async (option: string) => {
      const running = program(commandLine, [option]);
      expect(await running.exited()).toBe(0);
      return running.stdout();
    };
    const help = await output('--help');
    for (const name of Object.keys(commands)) expect(help).toMatch(new RegExp(`^  ${name} `, 'm'));
    const { version } = JSON.parse(await readFile(packageFile('package.json'), 'utf8'));
    expect(await output('--version')).toBe(`${version}\n`);
  });

  it('refuses an unknown command, and asks for one', async ({ program }) => {
    for (const [args, line] of [
      [['worker'], "error: unknown command 'worker'"],
      [[], 'Usage: crm-data-service <command> [options]'],
    ] as const) {
      const running = program(commandLine, args);
      expect(await running.exited()).toBe(2);
      expect(running.output().split('\n')[0]).toBe(line);
      expect(running.stdout()).toBe('');
    }
  });

  it('has the same commands as the scripts of npm', async () => {
    const { scripts } = JSON.parse(await readFile(packageFile('package.json'), 'utf8'));
    for (const name of Object.keys(commands)) {
      expect(scripts[name]).toBe(`exec node src/commands/crm-data-service.cjs ${name}`);
    }
  });
});
