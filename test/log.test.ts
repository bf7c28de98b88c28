import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { describe, expect } from 'vitest';
import { encodeId } from '../src/domain/public-id.ts';
import { recordedLog } from './http/recorded-log.ts';
import { mountDisk } from './support/disk.ts';
import { test } from './support/fixtures.ts';
import { addKey } from './support/shop.ts';

const { log, lines } = recordedLog();

const it = test
  .extend('apiOptions', { scope: 'file' }, { log, rateLimitPerMinute: 3 })
  /** Sends a request, and returns its line in the log. */
  .extend('lineOf', ({ api }) => async (url: string, secret?: string) => {
    const { headers } = await api.get(url, secret);
    return lines
      .map((line) => JSON.parse(line))
      .find(({ reqId, msg }) => msg === 'request completed' && reqId === headers['request-id']);
  });

const scriptArguments = (script: string) => [
  '--input-type=module',
  '--eval',
  `import { createLog, logProcessEvents } from './dist/src/process/log.js';${script}`,
];

/** Runs a script to its end, and returns what it logs. */
async function logOf(script: string): Promise<string> {
  const child = spawn(process.execPath, scriptArguments(script), {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let output = '';
  (child.stderr as Readable).on('data', (text) => {
    output += text;
  });
  await once(child, 'close');
  return output;
}

describe('a process whose log is on a full disk', () => {
  it('continues, and writes the log again once the disk has space', async ({ directory, skip }) => {
    const disk = await mountDisk(join(directory, 'disk'), 2);
    try {
      if (!disk.canBeFilled) skip();
      await disk.fill(0);
      const script = `
        const log = createLog('test', 'info');
        for (let line = 0; line < 2000; line += 1) log.error({ line }, 'x'.repeat(1000));
        console.log('running');
        process.stdin.once('data', () => {
          log.info('the disk has space');
          log.info('the end');
          process.exit();
        });`;
      const file = join(disk.path, 'log');
      const child = spawn(process.execPath, scriptArguments(script), {
        stdio: ['pipe', 'pipe', openSync(file, 'a')],
      });
      const [output] = await once(child.stdout as Readable, 'data');
      expect(String(output)).toBe('running\n');
      await disk.free();
      child.stdin?.write('\n');
      await once(child, 'exit');
      const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
      expect(JSON.parse(lines[0] ?? '').line).toBe(0);
      expect(JSON.parse(lines.at(-1) ?? '').msg).toBe('the end');
    } finally {
      await disk.unmount();
    }
  });
});

describe('a log line with an error of Postgres', () => {
  it('has the code and the constraint of the error, without detail and context', async () => {
    const line = await logOf(`
      import pg from 'pg';
      const error = new pg.DatabaseError('duplicate key value', 0, 'error');
      error.code = '42P01';
      error.constraint = 'purchases_pkey';
      error.detail = 'Key (order_number)=(SECRET-1) already exists.';
      error.where = 'COPY purchases, line 1: SECRET-2';
      createLog('test', 'info').child({}).error({ err: error }, 'failed');`);
    const { err } = JSON.parse(line);
    expect(err).toMatchObject({ code: '42P01', constraint: 'purchases_pkey' });
    expect(err.stack).toMatch(/duplicate key value\n {4}at /);
    expect(line).not.toMatch(/SECRET/);
  });
});

describe('the log of a service', () => {
  it.for([
    ['an error that nothing catches', `throw new Error('no handler');`],
    ['a rejection that nothing handles', `Promise.reject(new Error('no handler'));`],
  ] as const)('has warnings of Node and %s as JSON', async ([_, fault]) => {
    const output = await logOf(`
      logProcessEvents(createLog('test', 'info'));
      process.emitWarning('old', 'DeprecationWarning', 'DEP_TEST');
      setTimeout(() => { ${fault} }, 10);`);
    const lines = output
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines).toMatchObject([
      { level: 40, err: { type: 'DeprecationWarning', code: 'DEP_TEST', message: 'old' } },
      { level: 60, err: { message: 'no handler' } },
    ]);
  });
});

describe('the log line of a request', () => {
  it('has the route, the organization and the key, and no value of the path', async ({
    database,
    shop,
    lineOf,
  }) => {
    const { id, secret } = await addKey(database.pool, shop.organizationId);
    const writer = await addKey(database.pool, shop.organizationId, { scopes: ['write'] });
    const identity = {
      level: 30,
      method: 'GET',
      organization: encodeId('organization', shop.organizationId),
    };
    const key = encodeId('api_key', id);
    const route = '/v1/customers/:customer_id';
    const line = await lineOf('/v1/customers/cus_nobody', secret);
    expect(line).toMatchObject({ ...identity, key, route, status: 404 });
    expect(JSON.stringify(line)).not.toContain('nobody');
    expect(line.milliseconds).toBeGreaterThan(0);
    expect(await lineOf('/v1/me', writer.secret)).toMatchObject({
      ...identity,
      key: encodeId('api_key', writer.id),
      status: 403,
    });
    for (let request = 0; request < 2; request += 1) await lineOf('/v1/me', secret);
    expect(await lineOf('/v1/me', secret)).toMatchObject({ ...identity, key, status: 429 });
    const unknown = await lineOf('/v1/me', 'crm_live_unknown');
    expect(unknown).toMatchObject({ level: 30, status: 401 });
    expect(Object.keys(unknown)).not.toContain('key');
  });

  it.for(['/healthz', '/readyz'])(
    'has the level debug for the probe %s',
    async (url, { lineOf }) => {
      expect(await lineOf(url)).toMatchObject({ level: 20, route: url, status: 200 });
    },
  );

  it('is one line of text on a terminal, like every line without an error', async () => {
    const text = await logOf(`
      process.stderr.isTTY = true;
      const log = createLog('api', 'info');
      const request = log.child({ reqId: 'req_1' });
      const fields = { method: 'GET', route: '/v1/tags/:tag_id', status: 200, milliseconds: 1.5 };
      request.info({ ...fields, organization: 'org_1', key: 'bak_1' }, 'request completed');
      request.info(fields, 'request completed');
      log.info({ organization: 'org_1', purchases: 3 }, 'built');
      request.error({ err: new Error('out of order') }, 'failed');`);
    const plain = stripVTControlCharacters(text).replaceAll(/^\[.+?\] /gm, '');
    expect(plain.split('\n').slice(0, 4)).toEqual([
      'INFO (api): GET /v1/tags/:tag_id 200 1.5 ms org_1 bak_1',
      'INFO (api): GET /v1/tags/:tag_id 200 1.5 ms',
      'INFO (api): built {"organization":"org_1","purchases":3}',
      'ERROR (api): failed req_1 ',
    ]);
    expect(plain).toContain('out of order');
  });
});
