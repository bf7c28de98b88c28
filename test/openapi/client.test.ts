import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';
import { afterAll, describe, expect, vi } from 'vitest';
import { seedDatabase } from '../../src/seed/seed-database.ts';
import { test as it } from '../support/fixtures.ts';
import { addKey } from '../support/shop.ts';
import { checkedFetch } from '../support/sockets.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));

// A program of a client, which is checked against the generated types.
const program = `
import createClient from 'openapi-fetch';
import type { components, paths } from './api.ts';

export async function revenueByCampaign(baseUrl: string, key: string): Promise<Map<string | null, number>> {
  const api = createClient<paths, 'application/json'>({ baseUrl, headers: { Authorization: \`Bearer \${key}\` } });
  const { data, error } = await api.GET('/v1/purchases/stats', {
    params: { query: { status: 'paid', group_by: 'utm_campaign', group_limit: 50 } },
  });
  if (error !== undefined) throw new Error(error.error.message);
  return new Map(data.groups.map((group) => [group.key, group.revenue_in_cents]));
}

export async function allPurchases(baseUrl: string, key: string): Promise<components['schemas']['Purchase'][]> {
  const api = createClient<paths, 'application/json'>({ baseUrl, headers: { Authorization: \`Bearer \${key}\` } });
  const all: components['schemas']['Purchase'][] = [];
  for (;;) {
    const last = all.at(-1)?.id;
    const { data, error } = await api.GET('/v1/purchases', {
      params: { query: { limit: 100, ...(last === undefined ? {} : { starting_after: last }) } },
    });
    if (error !== undefined) throw new Error(error.error.message);
    all.push(...data.data);
    if (!data.has_more) return all;
  }
}

// @ts-expect-error: there is no such route
export type Unknown = paths['/v1/orders'];
`;

/** The program of docs/recipes.md. */
const recipe = () => readFile(join(root, 'docs/recipes/client.ts'), 'utf8');

describe('a TypeScript client generated from the OpenAPI document', () => {
  let baseUrl: string;
  let secret: string;

  it.beforeAll(async ({ database, api }) => {
    // The generated client uses the global `fetch` by default.
    vi.stubGlobal('fetch', checkedFetch);
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    baseUrl = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`;
    const until = new Date('2026-01-01T00:00:00Z');
    const [shop] = await seedDatabase(database.url, {
      organizations: 1,
      customers: 230,
      purchases: 450,
      seed: 5,
      until,
    });
    ({ secret } = await addKey(database.pool, shop?.organizationId as bigint));
  });
  afterAll(async () => {
    vi.unstubAllGlobals();
  });

  it('compiles', { tags: ['slow'] }, async ({ directory, api }) => {
    const source = await openapiTS((await api.get('/openapi.json')).body);
    await writeFile(join(directory, 'api.ts'), astToString(source));
    await writeFile(join(directory, 'program.ts'), program);
    await writeFile(join(directory, 'recipe.ts'), await recipe());
    const options = {
      compilerOptions: {
        strict: true,
        noEmit: true,
        target: 'es2023',
        module: 'nodenext',
        moduleResolution: 'nodenext',
        allowImportingTsExtensions: true,
        skipLibCheck: true,
        types: ['node'],
        typeRoots: [join(root, 'node_modules/@types')],
        lib: ['es2023', 'dom'],
        paths: { 'openapi-fetch': [join(root, 'node_modules/openapi-fetch/dist/index.d.mts')] },
      },
      files: ['api.ts', 'program.ts', 'recipe.ts'],
    };
    await writeFile(join(directory, 'tsconfig.json'), JSON.stringify(options));
    await writeFile(join(directory, 'package.json'), '{"type":"module"}');
    const compiled = await run(
      process.execPath,
      [join(root, 'node_modules/typescript/bin/tsc'), '-p', directory],
      { cwd: directory },
    ).catch((failed: { stdout: string }) => failed);
    expect(compiled.stdout).toBe('');
  });

  it('runs the program that was compiled', async ({ directory, api }) => {
    // The folder has no packages, so the package of the project is used.
    const url = pathToFileURL(join(root, 'node_modules/openapi-fetch/dist/index.mjs')).href;
    await writeFile(
      join(directory, 'runnable.ts'),
      program.replace(`'openapi-fetch'`, JSON.stringify(url)),
    );
    const { allPurchases, revenueByCampaign } = await import(
      /* @vite-ignore */ pathToFileURL(join(directory, 'runnable.ts')).href
    );
    expect(await allPurchases(baseUrl, secret)).toHaveLength(450);
    const stats = (await api.get('/v1/purchases/stats?status=paid', secret)).json();
    const revenue = [...(await revenueByCampaign(baseUrl, secret)).values()] as number[];
    expect(revenue.reduce((sum, cents) => sum + cents, 0)).toBeLessThanOrEqual(
      stats.revenue_in_cents,
    );
    expect(revenue.length).toBeGreaterThan(1);
  });

  it('runs the recipe', { tags: ['slow'] }, async ({ directory, api }) => {
    const url = pathToFileURL(join(root, 'node_modules/openapi-fetch/dist/index.mjs')).href;
    const source = (await recipe())
      .replace("'openapi-fetch'", JSON.stringify(url))
      .replace('http://127.0.0.1:3000', baseUrl);
    const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 };
    const code = ts.transpileModule(source, { compilerOptions }).outputText;
    const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', code], {
      cwd: directory,
      env: { ...process.env, KEY: secret },
    });
    const path = '/v1/purchases/report?status=paid&group_by=utm_campaign&measures=revenue_in_cents';
    const { rows } = (await api.get(path, secret)).json();
    expect(stdout.trim().split('\n')).toEqual([
      ...rows.map(
        (row: { utm_campaign: string | null; revenue_in_cents: number }) =>
          `${row.utm_campaign} ${row.revenue_in_cents}`,
      ),
      '422 group_by',
    ]);
    const file = await readFile(join(directory, 'purchases.parquet'));
    expect(file.subarray(0, 4).toString()).toBe('PAR1');
  });
});
