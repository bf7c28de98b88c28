import type { FastifyInstance, InjectOptions } from 'fastify';
import { afterAll, beforeEach, describe, expect } from 'vitest';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { revokeApiKey } from '../../src/postgres/api-keys.ts';
import { test } from '../support/fixtures.ts';
import { createCheckedApp } from '../support/openapi.ts';
import { testServices } from '../support/services.ts';
import { addKey } from '../support/shop.ts';
import { connectTo } from '../support/sockets.ts';
import { recordedLog, reveals } from './recorded-log.ts';

describe('the secret of a key', () => {
  const { log, lines } = recordedLog();
  let app: FastifyInstance;

  const it = test.extend(
    'ask',
    ({ shop }) =>
      (url: string, options: InjectOptions = {}) =>
        app.inject({
          method: 'GET',
          url,
          headers: { authorization: `Bearer ${shop.secret}` },
          ...options,
        }),
  );

  it.beforeAll(async ({ database }) => {
    app = createCheckedApp({
      services: testServices(database.pool, createPostgresEngine(database.pool)),
      rateLimitPerMinute: 1_000_000,
      failedKeysPerMinute: 1_000_000,
      log,
    });
    await app.listen({ host: '127.0.0.1', port: 0 });
  });
  afterAll(async () => {
    await app.close();
  });
  beforeEach(() => {
    lines.length = 0;
  });

  it.for([
    ['an answer', '/v1/me', 200],
    ['an unknown route', '/v1/nothing', 400],
    ['a missing purchase', '/v1/purchases/pur_nobody', 404],
    ['a parameter that is refused', '/v1/purchases?limit=x', 422],
  ] as const)('is not logged with %s', async ([_name, url, status], { shop, ask }) => {
    expect((await ask(url)).statusCode).toBe(status);
    expect(lines).not.toHaveLength(0);
    expect(lines.filter((line) => reveals(line, shop.secret))).toEqual([]);
  });

  it('is not logged when the key is refused', async ({ database, shop, ask }) => {
    const revoked = await addKey(database.pool, shop.organizationId);
    await revokeApiKey(database.pool, revoked.id);
    const writer = await addKey(database.pool, shop.organizationId, { scopes: ['write'] });
    for (const key of [revoked, writer]) {
      const headers = { authorization: `Bearer ${key.secret}` };
      const response = await ask('/v1/me', { headers });
      expect([401, 403]).toContain(response.statusCode);
      expect(reveals(response.body, key.secret)).toBe(false);
      expect(lines).not.toHaveLength(0);
      expect(lines.filter((line) => reveals(line, key.secret))).toEqual([]);
    }
  });

  it('is neither logged nor repeated when it is sent as a parameter', async ({ shop, ask }) => {
    for (const headers of [{}, { authorization: `Bearer ${shop.secret}` }]) {
      const response = await ask(`/v1/purchases?api_key=${shop.secret}`, { headers });
      expect([401, 422]).toContain(response.statusCode);
      expect(reveals(response.body, shop.secret)).toBe(false);
    }
    expect(lines).not.toHaveLength(0);
    expect(lines.filter((line) => reveals(line, shop.secret))).toEqual([]);
  });

  it('is neither logged nor repeated when it is sent as a parameter of a malformed URL', async ({
    shop,
    ask,
  }) => {
    const response = await ask(`/v1/%ZZ?api_key=${shop.secret}`);
    expect(response.statusCode).toBe(400);
    expect(lines.filter((line) => reveals(line, shop.secret))).toEqual([]);
    expect(reveals(response.body, shop.secret)).toBe(false);
  });

  it('is not logged when it is sent as a part of the path', async ({ shop, ask }) => {
    for (const path of [`/v1/${shop.secret}`, `/v1/purchases/${shop.secret}`]) {
      expect([400, 422]).toContain((await ask(path)).statusCode);
    }
    expect(lines).not.toHaveLength(0);
    expect(lines.filter((line) => reveals(line, shop.secret))).toEqual([]);
  });

  it('is not logged when the request is not HTTP after all', async ({ shop }) => {
    const client = await connectTo((app.server.address() as { port: number }).port);
    const answers = await client.sendBytes(
      `GET /v1/me HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${shop.secret}\r\nbad header\r\n\r\n`,
    );
    client.close();
    expect(answers).toMatchObject([{ status: 400 }]);
    expect(reveals(JSON.stringify(answers), shop.secret)).toBe(false);
    expect(lines.filter((line) => reveals(line, shop.secret))).toEqual([]);
  });
});
