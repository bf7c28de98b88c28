import type { FastifyRequest } from 'fastify';
import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { createKeyCheck } from '../../src/http/auth/authentication.ts';
import { revokeApiKey } from '../../src/postgres/keys/api-keys.ts';
import { createTurnQueue } from '../../src/queue/turn-queue.ts';
import { type Shop, test } from '../support/fixtures.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { addKey, addOrganization } from '../support/shop.ts';
import { comparable, expectRefusal } from './refusal.ts';

const routes = [
  '/v1/me',
  '/v1/purchases',
  `/v1/purchases/${encodeId('purchase', 1n)}`,
  '/v1/purchases/stats',
  `/v1/customers/${encodeId('customer', 1n)}/purchases`,
];

type Own = { readonly database: TestDatabase; readonly shop: Shop };

const it = test.extend(
  'withHeader',
  ({ api }) =>
    (authorization: string | undefined, url = '/v1/me') =>
      api.get(url, undefined, authorization === undefined ? {} : { authorization }),
);

describe('authentication', () => {
  const badKeys: readonly (readonly [
    string,
    (own: Own) => string | undefined | Promise<string>,
  ])[] = [
    ['no header', () => undefined],
    ['an empty header', () => ''],
    ['a scheme without a key', () => 'Bearer'],
    ['a scheme and a space', () => 'Bearer '],
    ['a key without a scheme', ({ shop }) => shop.secret],
    ['another scheme', ({ shop }) => `Token ${shop.secret}`],
    [
      'basic credentials',
      ({ shop }) => `Basic ${Buffer.from(`${shop.secret}:`).toString('base64')}`,
    ],
    ['two keys', ({ shop }) => `Bearer ${shop.secret} ${shop.secret}`],
    ['a list of keys', ({ shop }) => `Bearer ${shop.secret}, Bearer ${shop.secret}`],
    ['a quoted key', ({ shop }) => `Bearer "${shop.secret}"`],
    ['a truncated key', ({ shop }) => `Bearer ${shop.secret.slice(0, -1)}`],
    ['a key with a suffix', ({ shop }) => `Bearer ${shop.secret}0`],
    ['a key of another mode', ({ shop }) => `Bearer ${shop.secret.replace('_live_', '_test_')}`],
    ['a key in capitals', ({ shop }) => `Bearer ${shop.secret.toUpperCase()}`],
    ['a key whose checksum is wrong', ({ shop }) => `Bearer ${withOtherEnding(shop.secret)}`],
    ['a key of 8,000 characters', () => `Bearer ${'x'.repeat(8000)}`],
    [
      'an unknown, well-formed key',
      async ({ database, shop }) => {
        const { id, secret: deleted } = await addKey(database.pool, shop.organizationId);
        await database.pool.query('delete from api_keys where id = $1', [id]);
        return `Bearer ${deleted}`;
      },
    ],
    [
      'a key of a deleted organization',
      async ({ database }) => {
        const gone = await addOrganization(database.pool);
        const { secret: orphan } = await addKey(database.pool, gone);
        await database.pool.query('delete from organizations where id = $1', [gone]);
        return `Bearer ${orphan}`;
      },
    ],
    [
      'an expired key',
      async ({ database, shop }) => {
        const expired = { expiresAt: new Date('2020-01-01T00:00:00Z') };
        return `Bearer ${(await addKey(database.pool, shop.organizationId, expired)).secret}`;
      },
    ],
    [
      'a revoked key',
      async ({ database, shop }) => {
        const revoked = await addKey(database.pool, shop.organizationId);
        await revokeApiKey(database.pool, revoked.id);
        return `Bearer ${revoked.secret}`;
      },
    ],
  ];

  it.for(badKeys)(
    'refuses %s with the same 401 as a missing key',
    async ([_name, header], { database, shop, withHeader }) => {
      const usual = await withHeader(undefined);
      expectRefusal(usual, 'authentication_error');
      const response = await withHeader(await header({ database, shop }));
      expect(comparable(response)).toStrictEqual(comparable(usual));
    },
  );

  it('refuses two keys, and accepts one that is sent twice', async ({ client, shop }) => {
    const send = (...secrets: string[]) =>
      client.sendBytes(
        `GET /v1/me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${secrets
          .map((secret) => `Authorization: Bearer ${secret}\r\n`)
          .join('')}\r\n`,
      );
    for (const secrets of [
      [shop.secret, 'crm_live_other'],
      ['crm_live_other', shop.secret],
    ]) {
      expect((await send(...secrets))[0]?.status).toBe(401);
    }
    expect((await send(shop.secret, shop.secret))[0]?.status).toBe(200);
  });

  it('accepts the scheme name in any case', async ({ shop, withHeader }) => {
    expect((await withHeader(`bearer ${shop.secret}`)).statusCode).toBe(200);
    expect((await withHeader(`BEARER ${shop.secret}`)).statusCode).toBe(200);
  });

  it.for(['api_key', 'key', 'token', 'access_token', 'authorization', 'Authorization', 'bearer'])(
    'accepts no key in the query parameter %s',
    async (name, { api, shop }) => {
      for (const value of [shop.secret, `Bearer%20${shop.secret}`]) {
        for (const url of routes) {
          const response = await api.get(`${url}?${name}=${value}`);
          expectRefusal(response, 'authentication_error');
          expect(response.body).not.toContain(shop.secret);
        }
      }
    },
  );

  it('refuses a revoked key at the next request, and no other key', async ({
    database,
    api,
    shop,
    get,
  }) => {
    const key = await addKey(database.pool, shop.organizationId);
    expect((await api.get('/v1/me', key.secret)).statusCode).toBe(200);
    await revokeApiKey(database.pool, key.id);
    for (const url of routes) expectRefusal(await api.get(url, key.secret), 'authentication_error');
    expect((await get('/v1/me')).statusCode).toBe(200);
  });

  it('checks a key once for all requests that wait, and counts each', async ({
    database,
    shop,
  }) => {
    const turns = createTurnQueue(1);
    const settings = {
      rateLimitPerMinute: 100,
      rateLimitStore: 'memory',
      databaseSilenceMs: 60_000,
    } as const;
    const key = await addKey(database.pool, shop.organizationId);
    const check = createKeyCheck(database.pool, settings, turns);
    const rawHeaders = ['Authorization', `Bearer ${key.secret}`];
    const request = { raw: { rawHeaders } } as FastifyRequest;
    turns.pause();
    const checks = Array.from({ length: 50 }, () => check(request));
    expect(turns.size).toBe(1);
    turns.start();
    const events = (await Promise.all(checks)).map((checked) => checked?.usage.events);
    expect(events).toEqual(Array.from({ length: 50 }, (_, index) => index + 1));

    turns.pause();
    const later = [check(request), check(request)];
    await revokeApiKey(database.pool, key.id);
    turns.start();
    expect(await Promise.all(later)).toEqual([null, null]);
  });

  it('refuses a key from the instant of its expiry', async ({ database, api, shop }) => {
    const inAnHour = new Date(Date.now() + 3_600_000);
    const key = await addKey(database.pool, shop.organizationId, { expiresAt: inAnHour });
    expect((await api.get('/v1/me', key.secret)).statusCode).toBe(200);
    await database.pool.query('update api_keys set expires_at = now() where id = $1', [key.id]);
    expectRefusal(await api.get('/v1/me', key.secret), 'authentication_error');
  });

  it('denies requests of a key without a scope', async ({ database, api, shop }) => {
    const withoutScope = await addKey(database.pool, shop.organizationId, { scopes: [] });
    expectRefusal(await api.get('/v1/me', withoutScope.secret), 'permission_denied');
  });

  it('returns the organization, name and scopes of a key', async ({ database, api }) => {
    const organization = await addOrganization(database.pool, 'Loja "Ação" 🛒');
    const key = await addKey(database.pool, organization, {
      name: 'BI',
      scopes: ['read', 'write'],
    });
    const response = await api.get('/v1/me', key.secret);
    expect(response.json()).toStrictEqual({
      object: 'identity',
      organization: { id: encodeId('organization', organization), name: 'Loja "Ação" 🛒' },
      api_key: { id: encodeId('api_key', key.id), name: 'BI', scopes: ['read', 'write'] },
      livemode: true,
    });
  });
});

function withOtherEnding(secret: string): string {
  return `${secret.slice(0, -1)}${secret.endsWith('0') ? '1' : '0'}`;
}
