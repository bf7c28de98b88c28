import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect } from 'vitest';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { packageFile } from '../../src/process/package-files.ts';
import { isolatedTest } from '../support/fixtures.ts';
import { install, pack } from '../support/installed-package.ts';
import { commandLine, type Program } from '../support/program.ts';
import { checkedFetch } from '../support/sockets.ts';

/** The tarball of the former release is beside this file (CONTRIBUTING.md). */
const tarballs = readdirSync(import.meta.dirname).filter((name) => name.endsWith('.tgz'));

/** Each release from which the test upgrades. Without a tarball, it is a package of this tree that `makeEarlier` changes. */
const formerReleases = [
  { name: 'an earlier schema and layout', tarball: null },
  ...tarballs.map((tarball) => ({ name: tarball, tarball })),
];

const layoutFile = 'dist/src/purchase-store/format/layout.js';
const layoutPattern = /layoutVersion = (\d+)/;

const layoutOf = (folder: string): number => {
  const [, version] = layoutPattern.exec(readFileSync(join(folder, layoutFile), 'utf8')) ?? [];
  expect(version).toBeDefined();
  return Number(version);
};

/** Makes the package one before the last migration, whose files have another layout. */
function makeEarlier(folder: string): void {
  const file = join(folder, layoutFile);
  const former = `layoutVersion = ${layoutOf(folder) - 1}`;
  writeFileSync(file, readFileSync(file, 'utf8').replace(layoutPattern, former));
  const migrations = join(folder, 'src/migrations');
  rmSync(join(migrations, readdirSync(migrations).sort().at(-1) as string));
}

type Api = { readonly url: string; readonly program: Program };

/**
 * A client behind a proxy: a request that an API refuses to accept goes to the next one. Each request follows a new
 * purchase, and asks for data that are not before the last ones.
 */
class Client {
  readonly apis: Api[] = [];
  responses = 0;
  #asOf = '';
  #purchases = 0;
  #isStopped = false;
  #asked = Promise.resolve();
  readonly #database: Database;
  readonly #secret: string;

  constructor(database: Database, secret: string) {
    this.#database = database;
    this.#secret = secret;
  }

  start(): void {
    this.#asked = this.#askAgain();
    // `stop` and `more` report the failure.
    this.#asked.catch(() => {});
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#asked;
  }

  /** Waits for more responses. Rejects if a request has failed. */
  async more(count = 20): Promise<void> {
    const enough = this.responses + count;
    while (this.responses < enough) await Promise.race([this.#asked, this.#nextTurn()]);
  }

  /** The purchases of the statistics, as of an instant or later. */
  async countAsOf(asOf: string): Promise<number> {
    this.#asOf = asOf;
    await this.#ask('/v1/purchases/stats');
    return this.#purchases;
  }

  async #askAgain(): Promise<void> {
    const paths = ['stats', 'timeseries?interval=day', 'stats?group_by=utm_campaign'];
    for (let turn = 0; !this.#isStopped; turn += 1) {
      await this.#database.query(
        `insert into purchases (organization_id, customer_id, purchase_value_in_cents)
         select organization_id, min(id), 100 from customers group by organization_id`,
      );
      await this.#ask(`/v1/purchases/${paths[turn % paths.length]}`);
      await this.#ask('/v1/customers?limit=2');
    }
  }

  async #ask(path: string): Promise<void> {
    // The instant of customers is that of Postgres, which purchases reach only while a worker runs.
    const hasInstant = path.startsWith('/v1/purchases');
    const headers = {
      authorization: `Bearer ${this.#secret}`,
      ...(hasInstant && this.#asOf && { 'x-min-data-as-of': this.#asOf }),
    };
    const response = await this.#send(path, headers);
    const body = (await response.json()) as { purchase_count?: number };
    expect(response.status, `${path} ${JSON.stringify(body)}`).toBe(200);
    if (hasInstant) this.#asOf = response.headers.get('x-data-as-of') ?? '';
    if (body.purchase_count !== undefined) {
      expect(body.purchase_count).toBeGreaterThanOrEqual(this.#purchases);
      this.#purchases = body.purchase_count;
    }
    this.responses += 1;
  }

  async #send(path: string, headers: Record<string, string>): Promise<Response> {
    let failure: unknown = new Error('there is no API');
    for (const { url } of this.apis) {
      try {
        return await checkedFetch(`${url}${path}`, { headers });
      } catch (error) {
        // A response that has begun and does not end is another error.
        if (!(error instanceof TypeError && error.message === 'fetch failed')) throw error;
        failure = error;
      }
    }
    throw failure;
  }

  #nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));
}

const it = isolatedTest
  .extend('former', ({ newDirectory }) => (tarball: string | null): string => {
    const former = install(
      tarball === null ? pack(newDirectory).tarball : join(import.meta.dirname, tarball),
      join(newDirectory, 'former'),
    );
    if (tarball === null) makeEarlier(packageOf(former));
    return former;
  })
  .extend('clientOf', ({ database }, { onCleanup }) => (secret: string): Client => {
    const client = new Client(database.pool, secret);
    onCleanup(async () => client.stop().catch(() => {}));
    return client;
  });

/** The folder of the package whose command npm has linked. */
const packageOf = (command: string): string => join(dirname(command), '..', 'crm-data-service');

const limits = { RATE_LIMIT_PER_MINUTE: '1000000', MIN_DATA_AS_OF_WAIT_MS: '60000' };

describe('an upgrade', { tags: ['slow'] }, () => {
  it('is tested from the tarball of the former release', () => {
    const { version } = JSON.parse(readFileSync(packageFile('package.json'), 'utf8'));
    // 1.0.0 is the first release.
    const isFirst = version === '1.0.0';
    expect(isFirst || tarballs.some((name) => !name.endsWith(`-${version}.tgz`))).toBe(true);
  });

  it.for(formerReleases)(
    'from $name, in the documented order, fails no request and shows no earlier data',
    async ({ tarball }, { database: { pool }, former: installFormer, clientOf, program }) => {
      const former = installFormer(tarball);
      await pool.query('drop schema public cascade; create schema public');
      const run = async (command: string, ...args: string[]): Promise<string> => {
        const running = program(command, args);
        expect(await running.exited(), running.output()).toBe(0);
        return running.stdout();
      };
      const startApi = async (command: string): Promise<Api> => {
        const api = program(command, ['api'], limits);
        const [, url = ''] = await api.printed(/Listening on (http:\S+?)"/);
        await checkedFetch(`${url}/healthz`);
        return { url, program: api };
      };
      const startWorker = async (command: string, isToBuild: boolean): Promise<Program> => {
        const worker = program(command, ['sync']);
        await worker.printed(isToBuild ? /"msg":"built"/ : /"msg":"following changes"/);
        return worker;
      };

      const seeded = await run(
        ...[former, 'seed', '--organizations', '1', '--customers', '50', '--purchases', '20000'],
      );
      const [organization = '', secret = ''] = seeded.split(/\s+/);
      const formerWorker = await startWorker(former, true);
      const formerApis = [await startApi(former), await startApi(former)];
      const client = clientOf(secret);
      client.apis.push(...formerApis);
      client.start();
      await client.more();

      await run(commandLine, 'migrate');
      await client.more();
      expect(await formerWorker.end('SIGTERM')).toBe(0);
      await client.more();
      const isRebuilt = layoutOf(packageOf(former)) !== layoutOf(packageFile('.'));
      await startWorker(commandLine, isRebuilt);
      await client.more();
      for (const { program: api } of formerApis) {
        expect(await api.end('SIGTERM')).toBe(0);
        client.apis.shift();
        await client.more();
        client.apis.push(await startApi(commandLine));
        await client.more();
      }
      await client.stop();

      const { rows } = await pool.query(
        `select count(*)::int as purchases,
           to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as now
         from purchases`,
      );
      expect(await client.countAsOf(rows[0].now)).toBe(rows[0].purchases);
      expect(await run(commandLine, 'sync', 'verify', '--organization', organization)).toMatch(
        /purchases compared, equal/,
      );
    },
  );
});
