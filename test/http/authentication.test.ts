import type { LightMyRequestResponse } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { revokeApiKey } from '../../src/postgres/api-keys.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { addKey, addOrganization } from '../support/shop.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { expectRefusal } from './refusal.ts';

const routes = [
  '/v1/me',
  '/v1/purchases',
  `/v1/purchases/${encodeId('purchase', 1n)}`,
  '/v1/purchases/stats',
  `/v1/customers/${encodeId('customer', 1n)}/purchases`,
];

describe('authentication', () => {
  let database: TestDatabase;
  let folder: Awaited<ReturnType<typeof temporaryDirectory>>;
  let api: TestApi;
  let organizationId: bigint;
  let secret: string;
  beforeAll(async () => {
    database = await createTestDatabase();
    folder = await temporaryDirectory();
    api = await createTestApi(database.pool, folder.path);
    organizationId = await addOrganization(database.pool);
    ({ secret } = await addKey(database.pool, organizationId));
  });
  afterAll(async () => {
    await api.close();
    await database.drop();
    await folder.remove();
  });

  const withHeader = (authorization: string | undefined, url = '/v1/me') =>
    api.get(url, undefined, authorization === undefined ? {} : { authorization });

  /** What of an answer does not depend on which request it answers. */
  const lasting = (response: LightMyRequestResponse) => {
    const { 'request-id': requestId, date: _date, ...headers } = response.headers;
    return {
      status: response.statusCode,
      headers,
      body: response.body.replaceAll(String(requestId), 'req'),
    };
  };

  const badKeys: readonly (readonly [string, () => string | undefined | Promise<string>])[] = [
    ['no header', () => undefined],
    ['an empty header', () => ''],
    ['a scheme without a key', () => 'Bearer'],
    ['a scheme and a space', () => 'Bearer '],
    ['a key without a scheme', () => secret],
    ['another scheme', () => `Token ${secret}`],
    ['basic credentials', () => `Basic ${Buffer.from(`${secret}:`).toString('base64')}`],
    ['two keys', () => `Bearer ${secret} ${secret}`],
    ['a list of keys', () => `Bearer ${secret}, Bearer ${secret}`],
    ['a quoted key', () => `Bearer "${secret}"`],
    ['a cut key', () => `Bearer ${secret.slice(0, -1)}`],
    ['a key with more behind it', () => `Bearer ${secret}0`],
    ['a key of another mode', () => `Bearer ${secret.replace('_live_', '_test_')}`],
    ['a key in capitals', () => `Bearer ${secret.toUpperCase()}`],
    ['a key whose checksum is wrong', () => `Bearer ${withOtherEnding(secret)}`],
    ['a secret beyond all lengths', () => `Bearer ${'x'.repeat(8000)}`],
    [
      'a well-formed key that is not known',
      async () => {
        const { id, secret: deleted } = await addKey(database.pool, organizationId);
        await database.pool.query('delete from api_keys where id = $1', [id]);
        return `Bearer ${deleted}`;
      },
    ],
    [
      'a key of an organization that is gone',
      async () => {
        const gone = await addOrganization(database.pool);
        const { secret: orphan } = await addKey(database.pool, gone);
        await database.pool.query('delete from organizations where id = $1', [gone]);
        return `Bearer ${orphan}`;
      },
    ],
    [
      'an expired key',
      async () => {
        const expired = { expiresAt: new Date('2020-01-01T00:00:00Z') };
        return `Bearer ${(await addKey(database.pool, organizationId, expired)).secret}`;
      },
    ],
    [
      'a revoked key',
      async () => {
        const revoked = await addKey(database.pool, organizationId);
        await revokeApiKey(database.pool, revoked.id);
        return `Bearer ${revoked.secret}`;
      },
    ],
  ];

  it.each(badKeys)('answers %s with the very 401 that any other gets', async (_name, header) => {
    const usual = await withHeader(undefined);
    expectRefusal(usual, 'authentication_error');
    const response = await withHeader(await header());
    expect(lasting(response)).toStrictEqual(lasting(usual));
  });

  it.each(routes)('asks for a key on %s', async (url) => {
    expectRefusal(await api.get(url), 'authentication_error');
  });

  it('says with every 401 how to authenticate', async () => {
    expect((await api.get('/v1/me')).headers['www-authenticate']).toMatch(/^Bearer\b/);
  });

  it('lets in a key that is sent as it should be', async () => {
    expect((await api.get('/v1/me', secret)).statusCode).toBe(200);
  });

  it('takes the name of the scheme in any case', async () => {
    expect((await withHeader(`bearer ${secret}`)).statusCode).toBe(200);
    expect((await withHeader(`BEARER ${secret}`)).statusCode).toBe(200);
  });

  it.each(['api_key', 'key', 'token', 'access_token', 'authorization', 'Authorization', 'bearer'])(
    'never takes a key from the query parameter %s',
    async (name) => {
      for (const value of [secret, `Bearer%20${secret}`]) {
        for (const url of routes) {
          const response = await api.get(`${url}?${name}=${value}`);
          expectRefusal(response, 'authentication_error');
          expect(response.body).not.toContain(secret);
        }
      }
    },
  );

  it('refuses a key in the query string beside one in the header, without repeating it', async () => {
    const response = await api.get(`/v1/me?api_key=${secret}`, secret);
    expectRefusal(response, 'validation_error', 'api_key');
    expect(response.body).not.toContain(secret);
  });

  it('refuses a revoked key at the very next request', async () => {
    const key = await addKey(database.pool, organizationId);
    expect((await api.get('/v1/me', key.secret)).statusCode).toBe(200);
    await revokeApiKey(database.pool, key.id);
    for (const url of routes) expectRefusal(await api.get(url, key.secret), 'authentication_error');
  });

  it('refuses a key from the moment on at which it expires', async () => {
    const inAnHour = new Date(Date.now() + 3_600_000);
    const key = await addKey(database.pool, organizationId, { expiresAt: inAnHour });
    expect((await api.get('/v1/me', key.secret)).statusCode).toBe(200);
    await database.pool.query('update api_keys set expires_at = now() where id = $1', [key.id]);
    expectRefusal(await api.get('/v1/me', key.secret), 'authentication_error');
  });

  it('leaves the organization its other keys when one is revoked', async () => {
    const revoked = await addKey(database.pool, organizationId);
    await revokeApiKey(database.pool, revoked.id);
    expect((await api.get('/v1/me', secret)).statusCode).toBe(200);
  });

  it.each(routes)('denies %s to a key that may only write', async (url) => {
    const writer = await addKey(database.pool, organizationId, { scopes: ['write'] });
    const response = await api.get(url, writer.secret);
    expectRefusal(response, 'permission_denied');
    expect(response.headers).not.toHaveProperty('www-authenticate');
  });

  it('denies everything to a key without any scope', async () => {
    const powerless = await addKey(database.pool, organizationId, { scopes: [] });
    expectRefusal(await api.get('/v1/me', powerless.secret), 'permission_denied');
  });

  it('tells a key which organization, name and scopes it has', async () => {
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
