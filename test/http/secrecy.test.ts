import type { FastifyInstance, InjectOptions } from 'fastify';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { revokeApiKey } from '../../src/postgres/api-keys.ts';
import { createCheckedApp } from '../support/openapi.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { testServices } from '../support/services.ts';
import { addKey, addOrganization } from '../support/shop.ts';
import { connectTo } from '../support/sockets.ts';
import { recordedLog, reveals } from './recorded-log.ts';

describe('the secret of a key', () => {
  const { log, lines } = recordedLog();
  let database: TestDatabase;
  let app: FastifyInstance;
  let organizationId: bigint;
  let secret: string;
  beforeAll(async () => {
    database = await createTestDatabase();
    app = createCheckedApp({
      services: testServices(database.pool, createPostgresEngine(database.pool)),
      rateLimitPerMinute: 1_000_000,
      failedKeysPerMinute: 1_000_000,
      log,
    });
    await app.listen({ host: '127.0.0.1', port: 0 });
    organizationId = await addOrganization(database.pool);
    ({ secret } = await addKey(database.pool, organizationId));
  });
  afterAll(async () => {
    await app.close();
    await database.drop();
  });
  beforeEach(() => {
    lines.length = 0;
  });

  const ask = (url: string, options: InjectOptions = {}) =>
    app.inject({ method: 'GET', url, headers: { authorization: `Bearer ${secret}` }, ...options });

  it.each([
    ['an answer', '/v1/me', 200],
    ['an unknown route', '/v1/nothing', 400],
    ['a missing purchase', '/v1/purchases/pur_nobody', 404],
    ['a parameter that is refused', '/v1/purchases?limit=x', 422],
  ])('is not logged with %s', async (_name, url, status) => {
    expect((await ask(url)).statusCode).toBe(status);
    expect(lines).not.toHaveLength(0);
    expect(lines.filter((line) => reveals(line, secret))).toEqual([]);
  });

  it('is not logged when the key is refused', async () => {
    const revoked = await addKey(database.pool, organizationId);
    await revokeApiKey(database.pool, revoked.id);
    const writer = await addKey(database.pool, organizationId, { scopes: ['write'] });
    for (const key of [revoked, writer]) {
      const headers = { authorization: `Bearer ${key.secret}` };
      const response = await ask('/v1/me', { headers });
      expect([401, 403]).toContain(response.statusCode);
      expect(reveals(response.body, key.secret)).toBe(false);
      expect(lines).not.toHaveLength(0);
      expect(lines.filter((line) => reveals(line, key.secret))).toEqual([]);
    }
  });

  it('is neither logged nor repeated when it is sent as a parameter', async () => {
    for (const headers of [{}, { authorization: `Bearer ${secret}` }]) {
      const response = await ask(`/v1/purchases?api_key=${secret}`, { headers });
      expect([401, 422]).toContain(response.statusCode);
      expect(reveals(response.body, secret)).toBe(false);
    }
    expect(lines).not.toHaveLength(0);
    expect(lines.filter((line) => reveals(line, secret))).toEqual([]);
  });

  it('is neither logged nor repeated when it is sent as a parameter of a malformed URL', async () => {
    const response = await ask(`/v1/%ZZ?api_key=${secret}`);
    expect(response.statusCode).toBe(400);
    expect(lines.filter((line) => reveals(line, secret))).toEqual([]);
    expect(reveals(response.body, secret)).toBe(false);
  });

  it('is not logged when it is sent as a part of the path', async () => {
    for (const path of [`/v1/${secret}`, `/v1/purchases/${secret}`]) {
      expect([400, 422]).toContain((await ask(path)).statusCode);
    }
    expect(lines).not.toHaveLength(0);
    expect(lines.filter((line) => reveals(line, secret))).toEqual([]);
  });

  it('is not logged when the request is not HTTP after all', async () => {
    const client = await connectTo((app.server.address() as { port: number }).port);
    const answers = await client.sendBytes(
      `GET /v1/me HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${secret}\r\nbad header\r\n\r\n`,
    );
    client.close();
    expect(answers).toMatchObject([{ status: 400 }]);
    expect(reveals(JSON.stringify(answers), secret)).toBe(false);
    expect(lines.filter((line) => reveals(line, secret))).toEqual([]);
  });
});
