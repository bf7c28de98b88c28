import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, utimesSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { commands } from '../src/commands/commands.ts';
import { ticksDirectory } from '../src/purchase-store/ticks/published-tick.ts';
import { readSettings } from '../src/settings/settings.ts';
import { test } from './support/fixtures.ts';

const root = join(import.meta.dirname, '..');
const folder = join(root, 'docs/deployment');

/** The variables of other programs, and constants of systemd. */
const foreign = new Set([
  ...['NODE_ENV', 'POSTGRES_DB', 'POSTGRES_PASSWORD'],
  ...['MIGRATIONS_PASSWORD', 'WORKER_PASSWORD', 'API_PASSWORD', 'WRITER_PASSWORD', '_PASSWORD'],
  ...['AF_INET', 'AF_INET6', 'AF_UNIX'],
  'ON_ERROR_STOP',
]);

const it = test
  /** The names and texts of all files of docs/deployment. */
  .extend('files', { scope: 'file' }, async () => {
    const names = await readdir(folder, { recursive: true });
    const texts = names
      .filter((name) => name !== 'systemd')
      .map(async (name) => [name, await readFile(join(folder, name), 'utf8')] as const);
    return Promise.all(texts);
  });

/** A command after the name of the program, in a line of a shell, of a unit or of JSON. */
const called = /(?:npx |\.bin\/|migrate |worker |\[")crm-data-service(?: |", ")(\w+)/g;

/** Every distinct match of the first group. */
const matches = (text: string, pattern: RegExp): string[] =>
  [...new Set([...text.matchAll(pattern)].map(([, match]) => match as string))].sort();

describe('docs/deployment', () => {
  it('names only settings that exist', ({ files }) => {
    const settings = new Set(
      matches(
        readFileSync(join(root, 'src/settings/settings.ts'), 'utf8'),
        /\[\s*'([A-Z][A-Z_]+)',/g,
      ),
    );
    expect(settings).toContain('DATABASE_URL');
    for (const [name, text] of files) {
      const named = matches(text, /\b([A-Z][A-Z0-9]*_[A-Z0-9_]+|HOST|PORT)\b/g);
      const unknown = named.filter((word) => !settings.has(word) && !foreign.has(word));
      expect(unknown, name).toEqual([]);
    }
  });

  it('names only programs and files that exist', ({ files }) => {
    for (const [name, text] of files) {
      for (const command of matches(text, called)) {
        expect(Object.keys(commands), name).toContain(command);
      }
      for (const file of matches(text, /\bdocs\/deployment\/([\w./-]*\w)/g)) {
        const isSecret = file === '.env';
        expect(isSecret || existsSync(join(folder, file)), `${name}: ${file}`).toBe(true);
      }
      for (const unit of matches(text, /\b(crm-data-service-[a-z]+@?)/g)) {
        expect(existsSync(join(folder, `systemd/${unit}.service`)), `${name}: ${unit}`).toBe(true);
      }
    }
  });

  it('has proxies in front of the ports of the units', ({ files }) => {
    const text = Object.fromEntries(files);
    const ports = matches(text['README.md'] as string, /crm-data-service-api@(\d+)/g);
    expect(ports).toEqual(['3000', '3001']);
    for (const proxy of ['nginx.conf', 'Caddyfile']) {
      expect(matches(text[proxy] as string, /127\.0\.0\.1:(\d+)/g), proxy).toEqual(ports);
    }
  });

  it('has proxies that tell browsers to use TLS alone', ({ files }) => {
    const text = Object.fromEntries(files);
    for (const proxy of ['nginx.conf', 'Caddyfile']) {
      const [maxAge] = matches(text[proxy] as string, /Strict-Transport-Security "?max-age=(\d+)/g);
      expect(Number(maxAge), proxy).toBeGreaterThanOrEqual(31_536_000);
    }
  });

  it('has a compose file whose processes use the documented roles, not the superuser', ({
    files,
  }) => {
    const { 'compose.yaml': compose = '', 'passwords.sql': passwords = '' } =
      Object.fromEntries(files);
    const roles = readFileSync(join(root, 'docs/sql/roles.sql'), 'utf8');
    const serviceOf = (name: string) =>
      compose.split(/^(?= {2}\w+:$)/m).find((part) => part.startsWith(`  ${name}:`)) ?? '';
    for (const [service, role] of [
      ['migrate', 'shop_migrations'],
      ['worker', 'shop_worker'],
      ['api', 'shop_api'],
    ] as const) {
      expect(matches(serviceOf(service), /postgres:\/\/(\w+):/g), service).toEqual([role]);
    }
    const withLogin = matches(roles, /^create role (\w+) login/gm);
    expect(matches(passwords, /^alter role (\w+) password/gm)).toEqual(withLogin);
    for (const [, variable, name] of passwords.matchAll(/^\\getenv (\w+) (\w+)$/gm)) {
      expect(passwords).toContain(`password :'${variable}'`);
      expect(serviceOf('postgres')).toContain(`${name}: \${${name}:?}`);
    }
  });

  it('has a health check that a worker passes as long as it polls', {
    tags: ['slow'],
  }, async ({ files, directory, worker, shop: _published }) => {
    const compose = Object.fromEntries(files)['compose.yaml'] ?? '';
    const [script = ''] = /const \{ readdirSync[\s\S]*?(?=\n {6}interval)/.exec(compose) ?? [];
    const isHealthy = () =>
      spawnSync(process.execPath, ['-e', script.replace('/data/', `${directory}/`)]).status === 0;
    expect(isHealthy()).toBe(false);
    await worker.syncAll();
    expect(isHealthy()).toBe(true);
    const aMinuteAgo = Date.now() / 1000 - 60;
    const ticks = ticksDirectory(directory);
    for (const name of await readdir(ticks)) utimesSync(join(ticks, name), aMinuteAgo, aMinuteAgo);
    expect(isHealthy()).toBe(false);
  });

  it('has units that serve metrics at the addresses that the example of docs/metrics.md scrapes', ({
    files,
  }) => {
    const text = Object.fromEntries(files);
    const unit = (name: string, instance = '') =>
      text[`systemd/crm-data-service-${name}.service`]?.replaceAll('%i', instance) ?? '';
    const [shards = ''] = matches(text['README.md'] as string, /\bSHARDS=(\d)/g);
    const numbers = Array.from({ length: Number(shards) }, (_, index) => String(index + 1));
    const addresses = [
      ...['3000', '3001'].map((port) => unit('api@', port)),
      unit('worker'),
      ...numbers.map((number) => unit('worker@', number)),
    ].flatMap((each) => matches(each, /METRICS_LISTEN=(\S+)/g));
    const parsed = addresses.map((each) => readSettings({ METRICS_LISTEN: each }).metricsListen);
    expect(parsed).toEqual(
      [13_000, 13_001, 9_465, 19_461, 19_462].map((port) => ({ host: '127.0.0.1', port })),
    );
    const metrics = readFileSync(join(root, 'docs/metrics.md'), 'utf8');
    const [example = ''] = /```yaml[\s\S]*?```/.exec(metrics) ?? [];
    expect(matches(example, /'([\d.]+:\d+)'/g)).toEqual([...addresses].sort());
  });

  it('has a unit for each shard that differs from that of the only worker in its shard alone', ({
    files,
  }) => {
    const text = Object.fromEntries(files);
    const service = (name: string) =>
      (text[`systemd/crm-data-service-${name}.service`] ?? '').split('[Service]')[1];
    const ofShard = service('worker@');
    expect(ofShard).toMatch(/crm-data-service sync run --shard %i\/\$\{SHARDS\}\n/);
    expect(
      ofShard?.replace('127.0.0.1:1946%i', '127.0.0.1:9465').replace(/ run --shard .*/, ''),
    ).toBe(service('worker'));
  });

  it('has a compose file that serves metrics at the addresses of docs/metrics.md', ({ files }) => {
    const compose = Object.fromEntries(files)['compose.yaml'] ?? '';
    const metrics = readFileSync(join(root, 'docs/metrics.md'), 'utf8');
    for (const port of matches(compose, /METRICS_LISTEN: 0\.0\.0\.0:(\d+)/g)) {
      expect(compose).toContain(`"127.0.0.1:${port}:${port}"`);
      expect(metrics).toContain(`\`127.0.0.1:${port}\``);
    }
  });
});
