import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { DuckDBInstance } from '@duckdb/node-api';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, describe, expect } from 'vitest';
import { createTestApi, type TestApi } from './support/api.ts';
import { test } from './support/fixtures.ts';
import { purchasesById } from './support/follower.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from './support/shop.ts';
import { createTestWorker } from './support/sync.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '..');

async function textOf(section: string, document = 'recipes.md'): Promise<string> {
  const text = await readFile(join(root, 'docs', document), 'utf8');
  return text.split(`\n## ${section}\n`)[1]?.split('\n## ')[0] ?? '';
}

/** A file of docs/recipes. */
const fileOf = (name: string) => readFile(join(root, 'docs/recipes', name), 'utf8');

const blocksIn = (text: string, language: string): string[] =>
  [...text.matchAll(/```(\w*)\n(.*?)```/gs)].flatMap(([, name, code]) =>
    name === language ? [code as string] : [],
  );

/** The code blocks of a section, which must state that the tests run them. */
async function codeOf(section: string, language: string): Promise<string[]> {
  const own = (await textOf(section)).split('\nNot tested here')[0] ?? '';
  expect(own).toMatch(/^\nRun in the tests/);
  return blocksIn(own, language);
}

const idOf = ({ id }: { id: string }) => id;

describe('the recipes', () => {
  const purchases = 130;
  const cents = (purchases * (purchases + 1)) / 2;
  /** Every second purchase is paid. */
  const paidCents = (purchases / 2) * (purchases / 2 + 1);
  let api: TestApi;
  let secret: string;
  let organization: bigint;
  let origin: string;
  let statuses: number[] = [];
  /** Whether the next response is the last within the rate limit. Its window then ends soon. */
  let isLast = false;
  /** Each purchase is created on another day. */
  const dayOf = (value: number) => new Date(Date.UTC(2025, 0, value, 15)).toISOString();

  const it = test.extend('shell', ({ directory }) => async (code: string): Promise<string> => {
    const env = { ...process.env, KEY: secret };
    const options = { cwd: directory, env };
    return (await run('bash', ['-euo', 'pipefail', '-c', withOrigin(code)], options)).stdout;
  });

  it.beforeAll(async ({ database, directory }) => {
    organization = await addOrganization(database.pool);
    ({ secret } = await addKey(database.pool, organization));
    for (let value = 1; value <= purchases; value += 1) {
      await addPurchase(database.pool, organization, {
        customer_id: await addCustomer(database.pool, organization),
        purchase_value_in_cents: value,
        currency: 'BRL',
        created_at: dayOf(value),
        payment_status: value % 2 === 0 ? 'paid' : 'pending',
        coupons: JSON.stringify([{ id: '1', code: value % 3 === 0 ? 'TEN, "off"' : 'FREE' }]),
      });
    }
    const worker = await createTestWorker(database.pool, join(directory, 'data'));
    await worker.syncAll();
    await worker.close();
    const rateLimitPerMinute = 1_000;
    api = await createTestApi(database.pool, join(directory, 'data'), {
      rateLimitStore: 'postgres',
      rateLimitPerMinute,
    });
    api.app.addHook('onSend', async (_request, { statusCode }, payload) => {
      statuses.push(statusCode);
      if (isLast) {
        isLast = false;
        await database.pool.query('update rate_limits set points = $1, expire = $2', [
          rateLimitPerMinute,
          Date.now() + 2_000,
        ]);
      }
      return payload;
    });
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    origin = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    await api.close();
  });

  /** Runs a recipe whose second request is refused, and which must then continue. */
  const atRateLimit = async (recipe: () => Promise<unknown>) => {
    statuses = [];
    isLast = true;
    await recipe();
    expect(statuses.slice(0, 3)).toEqual([200, 429, 200]);
  };
  const withOrigin = (code: string) => code.replaceAll('http://127.0.0.1:3000', origin);

  it('for curl work as printed, and DuckDB reads the files that they write', {
    tags: ['slow'],
  }, async ({ directory, shell }) => {
    const [totals, pages, files] = (await codeOf('curl', 'sh')) as [string, string, string];
    expect(await shell(totals)).toContain(`"revenue_in_cents":${paidCents}`);
    await atRateLimit(() => shell(pages));
    const customers = (await readFile(join(directory, 'customers.ndjson'), 'utf8')).trimEnd();
    const ids = customers.split('\n').flatMap((line) => JSON.parse(line).data.map(idOf));
    expect(new Set(ids).size).toBe(purchases);
    await shell(files);

    const [statements = ''] = await codeOf('DuckDB', 'sql');
    const instance = await DuckDBInstance.create(':memory:');
    const connection = await instance.connect();
    try {
      const results: unknown[][][] = [];
      for (const statement of statements.split(';').filter((text) => text.trim() !== '')) {
        const found = statement.replaceAll(
          /'(\w+\.\w+)'/g,
          (_, name) => `'${join(directory, name)}'`,
        );
        results.push((await connection.runAndReadAll(found)).getRows());
      }
      const [months = [], counts, coupons, customersRead] = results;
      expect(months.reduce((sum, [, revenue]) => sum + Number(revenue), 0)).toBeCloseTo(
        paidCents / 100,
      );
      expect(counts).toEqual([[BigInt(purchases), BigInt(purchases)]]);
      expect(coupons).toEqual([
        ['FREE', 87n],
        ['TEN, "off"', 43n],
      ]);
      const lines = (await readFile(join(directory, 'purchases.ndjson'), 'utf8')).trimEnd();
      expect(lines.split('\n')).toHaveLength(purchases);
      expect(customersRead).toHaveLength(purchases);
    } finally {
      connection.closeSync();
      instance.closeSync();
    }
  });

  it('for Arrow in JavaScript works as printed', async () => {
    const [code = ''] = await codeOf('Arrow in JavaScript', 'js');
    const { stdout } = await run(
      process.execPath,
      ['--input-type=module', '--eval', withOrigin(code)],
      { cwd: root, env: { ...process.env, KEY: secret } },
    );
    expect(stdout).toBe(`${purchases} purchases, ${cents} cents\n`);
  });

  it('for Java works as printed', { tags: ['slow'] }, async ({ newDirectory, skip }) => {
    const hasJava = await run('java', ['-version']).then(
      () => true,
      () => false,
    );
    if (!hasJava) skip();
    const program = join(newDirectory, 'SalesReport.java');
    await writeFile(program, withOrigin(await fileOf('SalesReport.java')));
    const options = { cwd: newDirectory, env: { ...process.env, KEY: secret } };
    const { stdout } = await run('java', [program], options);
    expect(stdout).toContain(`\r\n,${paidCents},BRL,false\r\n`);
    expect(stdout).toMatch(/^422 \{.*"param":"group_by"/m);
    const file = await readFile(join(newDirectory, 'purchases.csv'), 'utf8');
    expect(file.trimEnd().split('\r\n')).toHaveLength(1 + purchases / 2);
  });

  it.for(['copy.mjs', 'copy.py'])(
    'for a copy that follows changes works as printed: %s',
    { tags: ['slow'] },
    async (name, { database, directory, newDirectory, skip }) => {
      const python = () =>
        run('python3', ['--version']).then(
          () => true,
          () => false,
        );
      const isPython = name.endsWith('.py');
      if (isPython && !(await python())) skip();
      const code = withOrigin(await fileOf(name));
      const command: [string, string[]] = isPython
        ? ['python3', ['-c', code]]
        : [process.execPath, ['--input-type=module', '--eval', code]];
      const options = { cwd: newDirectory, env: { ...process.env, KEY: secret } };
      const copied = async () => {
        await run(...command, options);
        const copy = JSON.parse(await readFile(join(newDirectory, 'copy.json'), 'utf8'));
        return new Map(copy.data.map((row: { id: string }) => [row.id, row]));
      };
      const expected = () => purchasesById(database.pool, organization);
      const worker = await createTestWorker(database.pool, join(directory, 'data'));
      try {
        expect(await copied()).toEqual(await expected());
        const customer = await addCustomer(database.pool, organization);
        const id = await addPurchase(database.pool, organization, { customer_id: customer });
        await worker.syncAll();
        expect(await copied()).toEqual(await expected());
        await database.pool.query('delete from purchases where id = $1', [id]);
        await database.pool.query(`update purchases set order_number = 'x' where id % 7 = 0`);
        await worker.syncAll();
        expect(await copied()).toEqual(await expected());
        await database.pool.query(`
          alter table purchases disable trigger log_updated_purchases;
          update purchases set order_number = 'y' where id % 11 = 0;
          alter table purchases enable trigger log_updated_purchases`);
        await worker.syncAll();
        await expect(copied()).rejects.toThrow('409');
        expect(await copied()).toEqual(await expected());
      } finally {
        await worker.close();
      }
    },
  );

  it('for revenue by day writes a line for each day', async ({ directory, shell }) => {
    const [code = ''] = await codeOf('Revenue by day', 'sh');
    await shell(code);
    const file = await readFile(join(directory, 'revenue-by-day.csv'), 'utf8');
    const [names, ...lines] = file.trim().split('\r\n');
    expect(names).toMatch(/^starts_at,key,purchase_count,customer_count,revenue_in_cents,/);
    // From the first to the last paid purchase.
    expect(lines).toEqual(
      Array.from({ length: 2 * Math.floor(purchases / 2) - 1 }, (_, index) => {
        const [value, day] = [index + 2, dayOf(index + 2).slice(0, 10)];
        const amounts = value % 2 === 0 ? `1,1,${value},${value}` : '0,0,0,0';
        return `${day}T03:00:00Z,,${amounts},BRL,false,true`;
      }),
    );
  });

  it('for the questions that shops ask are requests that the API answers', {
    tags: ['slow'],
  }, async ({ shell }) => {
    const blocks = blocksIn(await textOf('Questions that shops ask', 'api.md'), 'sh');
    const [definition = '', ...requests] = blocks;
    const lines = requests.flatMap((block) =>
      block.split('\n').filter((line) => /^ask /.test(line)),
    );
    expect(lines.length).toBeGreaterThanOrEqual(20);
    for (const line of lines) await shell(`${definition}${line}`);
  });

  it('for agents connect a client of the Model Context Protocol', async () => {
    const [command = ''] = await codeOf('Agents', 'sh');
    const [settings = ''] = await codeOf('Agents', 'json');
    const { type, url, headers } = JSON.parse(settings).mcpServers.shop;
    expect(type).toBe('http');
    const authorization = headers.Authorization.replace(/\$\{KEY\}/, secret);
    expect(command).toContain(
      `${url} --header "Authorization: ${headers.Authorization}`.replace(/\$\{(KEY)\}/, '$$$1'),
    );
    const transport = new StreamableHTTPClientTransport(new URL(withOrigin(url)), {
      requestInit: { headers: { authorization } },
    });
    const client = new Client({ name: 'test', version: '1' });
    await client.connect(transport);
    const result = await client.callTool({ name: 'purchase_report', arguments: { status: 'any' } });
    expect(result.structuredContent).toMatchObject({ totals: { revenue_in_cents: cents } });
    await client.close();
  });

  it('for Grafana is a URL that returns the range in its variables', async () => {
    const [url = ''] = blocksIn(await textOf('Grafana'), '');
    const range = { from: dayOf(10), to: dayOf(57) };
    const path = withOrigin(url.trim())
      .replace(origin, '')
      .replaceAll(/\$\{__(from|to):date:iso\}/g, (_, name: 'from' | 'to') => range[name]);
    const response = await api.get(path, secret);
    expect(response.statusCode).toBe(200);
    expect(response.headers['x-has-more']).toBe('false');
    const [names = '', ...rows] = response.body.trim().split('\r\n');
    expect(names.split(',')).toEqual(
      expect.arrayContaining(['starts_at', 'revenue_in_cents', 'purchase_count']),
    );
    expect(rows).toHaveLength(48);
  });

  it('for Power BI name columns that the API has', async () => {
    const columnsOf = async (name: string) => {
      const [, columns = ''] = /Columns = \{(.*?)\}/s.exec(await fileOf(name)) ?? [];
      return [...columns.matchAll(/"(\w+)"/g)].map(([, column]) => column);
    };
    const { schemas } = (await api.get('/openapi.json')).json().components;
    const { object: _object, ...customer } = schemas.Customer.properties;
    expect(await columnsOf('customers.pq')).toEqual(Object.keys(customer));
    const exported = await api.get('/v1/purchases/export?format=csv', secret);
    const names = exported.body.split('\r\n')[0]?.split(',');
    expect(names).toEqual(expect.arrayContaining(await columnsOf('purchases.pq')));
    const [, record = ''] = /Query = \[(.*?)\]/s.exec(await fileOf('report.pq')) ?? [];
    const query = new URLSearchParams(
      Object.fromEntries(
        [...record.matchAll(/(\w+) = "([^"]*)"/g)].map(([, name, value]) => [name, value]),
      ),
    );
    const report = await api.get(`/v1/purchases/report?${query}`, secret);
    expect(report.body.split('\r\n')[0]?.split(',')).toEqual(await columnsOf('report.pq'));
  });
});
