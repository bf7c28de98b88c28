import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, describe, expect } from 'vitest';
import { encodeId } from '../src/domain/public-id.ts';
import { recordedLog } from './http/recorded-log.ts';
import { createTestApi, type TestApi } from './support/api.ts';
import { mountDisk } from './support/disk.ts';
import { test as it } from './support/fixtures.ts';
import { addKey } from './support/shop.ts';
import { temporaryDirectory } from './support/temporary-directory.ts';

describe('a process whose log is on a full disk', () => {
  it('goes on, and goes on telling when there is room', async ({ skip }) => {
    const directory = await temporaryDirectory();
    const disk = await mountDisk(directory.path, 2);
    try {
      if (!disk.canBeFilled) skip();
      await disk.fill(0);
      const program = `
        import { createLog } from './dist/src/log.js';
        const log = createLog('test', 'info');
        for (let line = 0; line < 2000; line += 1) log.error({ line }, 'x'.repeat(1000));
        console.log('still there');
        process.stdin.once('data', () => {
          // More than was kept.
          log.info('there is room');
          log.info('the end');
          process.exit();
        });`;
      const options = ['--input-type=module', '--eval', program];
      const file = join(disk.path, 'log');
      const child = spawn(process.execPath, options, {
        stdio: ['pipe', 'pipe', openSync(file, 'a')],
      });
      const [news] = await once(child.stdout as Readable, 'data');
      expect(String(news)).toBe('still there\n');
      await disk.free();
      child.stdin?.write('\n');
      await once(child, 'exit');
      const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
      expect(JSON.parse(lines[0] ?? '').line).toBe(0);
      expect(JSON.parse(lines.at(-1) ?? '').msg).toBe('the end');
    } finally {
      await disk.unmount();
      await directory.remove();
    }
  });
});

describe('a log line with an error of Postgres', () => {
  it('holds its code and its constraint, and neither its detail nor its context', async () => {
    const program = `
      import pg from 'pg';
      import { createLog } from './dist/src/log.js';
      const error = new pg.DatabaseError('duplicate key value', 0, 'error');
      error.code = '42P01';
      error.constraint = 'purchases_pkey';
      error.detail = 'Key (order_number)=(SECRET-1) already exists.';
      error.where = 'COPY purchases, line 1: SECRET-2';
      createLog('test', 'info').child({}).error({ err: error }, 'failed');`;
    const options = ['--input-type=module', '--eval', program];
    const child = spawn(process.execPath, options, { stdio: ['ignore', 'ignore', 'pipe'] });
    let line = '';
    (child.stderr as Readable).on('data', (text) => {
      line += text;
    });
    await once(child, 'close');
    const { err } = JSON.parse(line);
    expect(err).toMatchObject({ code: '42P01', constraint: 'purchases_pkey' });
    expect(err.stack).toMatch(/duplicate key value\n {4}at /);
    expect(line).not.toMatch(/SECRET/);
  });
});

describe('the log line of a request', () => {
  const { log, lines } = recordedLog();
  let api: TestApi;
  it.beforeAll(async ({ database, directory }) => {
    api = await createTestApi(database.pool, directory, { log, rateLimitPerMinute: 3 });
  });
  afterAll(async () => {
    await api.close();
  });
  const lineOf = async (url: string, secret?: string) => {
    const { headers } = await api.get(url, secret);
    const own = lines.map((line) => JSON.parse(line));
    return own.find(
      ({ reqId, msg }) => msg === 'request completed' && reqId === headers['request-id'],
    );
  };

  it('names the route, the organization and the key, and no value of the path', async ({
    database,
    shop,
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

  it.each(['/healthz', '/readyz'])('is at debug level for the probe %s', async (url) => {
    expect(await lineOf(url)).toMatchObject({ level: 20, route: url, status: 200 });
  });

  it('is one line for a person on a terminal, as is any other without an error', async () => {
    const program = `
      import { createLog } from './dist/src/log.js';
      process.stderr.isTTY = true;
      const log = createLog('api', 'info');
      const request = log.child({ reqId: 'req_1' });
      const answer = { method: 'GET', route: '/v1/tags/:tag_id', status: 200, milliseconds: 1.5 };
      request.info({ ...answer, organization: 'org_1', key: 'bak_1' }, 'request completed');
      request.info(answer, 'request completed');
      log.info({ organization: 'org_1', purchases: 3 }, 'built');
      request.error({ err: new Error('out of order') }, 'failed');`;
    const options = ['--input-type=module', '--eval', program];
    const child = spawn(process.execPath, options, { stdio: ['ignore', 'ignore', 'pipe'] });
    let text = '';
    (child.stderr as Readable).on('data', (part) => {
      text += part;
    });
    await once(child, 'close');
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
