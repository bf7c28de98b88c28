import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestApi, type TestApi } from './support/api.ts';
import { createTestDatabase, type TestDatabase } from './support/postgres.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from './support/shop.ts';
import { createTestWorker } from './support/sync.ts';
import { temporaryDirectory } from './support/temporary-directory.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '..');

/** The lines of code of a section that says that they are run in the tests. */
async function codeOf(section: string, language: string): Promise<string[]> {
  const text = await readFile(join(root, 'docs/recipes.md'), 'utf8');
  const [, body = ''] = text.split(`\n## ${section}\n`);
  const own = body.split('\n## ')[0]?.split('\nNot tested here')[0] ?? '';
  expect(own).toMatch(/^\nRun in the tests/);
  return [...own.matchAll(/```(\w+)\n(.*?)```/gs)].flatMap(([, name, code]) =>
    name === language ? [code as string] : [],
  );
}

describe('the recipes', () => {
  const purchases = 130;
  const cents = (purchases * (purchases + 1)) / 2;
  let database: TestDatabase;
  let folder: Awaited<ReturnType<typeof temporaryDirectory>>;
  let api: TestApi;
  let secret: string;
  let origin: string;

  beforeAll(async () => {
    database = await createTestDatabase();
    folder = await temporaryDirectory();
    const organization = await addOrganization(database.pool);
    ({ secret } = await addKey(database.pool, organization));
    for (let value = 1; value <= purchases; value += 1) {
      await addPurchase(database.pool, organization, {
        customer_id: await addCustomer(database.pool, organization),
        purchase_value_in_cents: value,
        payment_status: value % 2 === 0 ? 'paid' : 'pending',
        coupons: JSON.stringify([{ id: '1', code: value % 3 === 0 ? 'TEN, "off"' : 'FREE' }]),
      });
    }
    const worker = await createTestWorker(database.pool, join(folder.path, 'data'));
    await worker.syncAll();
    await worker.close();
    api = await createTestApi(database.pool, join(folder.path, 'data'));
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    origin = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    await api.close();
    await database.drop();
    await folder.remove();
  });

  const pointed = (code: string) => code.replaceAll('http://127.0.0.1:3000', origin);
  const shell = async (code: string): Promise<string> => {
    const env = { ...process.env, KEY: secret };
    const options = { cwd: folder.path, env };
    return (await run('bash', ['-euo', 'pipefail', '-c', pointed(code)], options)).stdout;
  };

  it('for curl work as printed, and DuckDB reads the files that they leave', async () => {
    const [totals, pages, files, conditional] = (await codeOf('curl', 'sh')) as [
      string,
      string,
      string,
      string,
    ];
    expect(await shell(totals)).toContain(`"revenue_in_cents":${cents}`);
    await shell(pages);
    const customers = await readFile(join(folder.path, 'customers.json'), 'utf8');
    expect(new Set(customers.match(/"id":"cus_\w+"/g)).size).toBe(purchases);
    expect(customers.match(/"has_more":/g)).toHaveLength(2);
    await shell(files);
    expect(await shell(conditional)).toBe('304\n');

    const [statements = ''] = await codeOf('DuckDB', 'sql');
    const instance = await DuckDBInstance.create(':memory:');
    const connection = await instance.connect();
    try {
      const answers: unknown[][][] = [];
      for (const statement of statements.split(';').filter((text) => text.trim() !== '')) {
        const found = statement.replaceAll(
          /'(purchases\.\w+)'/g,
          (_, name) => `'${join(folder.path, name)}'`,
        );
        answers.push((await connection.runAndReadAll(found)).getRows());
      }
      const [months = [], counts, coupons, last = []] = answers;
      expect(months.reduce((sum, [, revenue]) => sum + Number(revenue), 0)).toBeCloseTo(
        (2 * ((purchases / 2) * (purchases / 2 + 1))) / 2 / 100,
      );
      expect(counts).toEqual([[BigInt(purchases), BigInt(purchases)]]);
      expect(coupons).toEqual([
        ['FREE', 87n],
        ['TEN, "off"', 43n],
      ]);
      expect(last.map(([, value]) => Number(value))).toEqual([130, 129, 128, 127, 126]);
    } finally {
      connection.closeSync();
      instance.closeSync();
    }
  });

  it('for Arrow in JavaScript works as printed', async () => {
    const [code = ''] = await codeOf('Arrow in JavaScript', 'js');
    const { stdout } = await run(
      process.execPath,
      ['--input-type=module', '--eval', pointed(code)],
      { cwd: root, env: { ...process.env, KEY: secret } },
    );
    expect(stdout).toBe(`${purchases} purchases, ${cents} cents\n`);
  });
});
