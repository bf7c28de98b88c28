import type { InjectOptions } from 'fastify';
import { describe, expect } from 'vitest';
import { encodeId, type IdentifiedResource } from '../../src/domain/public-id.ts';
import { createPool, type Database } from '../../src/postgres/connection/pool.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { test } from '../support/fixtures.ts';
import type { Item } from '../support/paging.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { addKey } from '../support/shop.ts';
import { type Endpoint, endpoints, endpointUrl, listEndpoints, prefixes } from './endpoints.ts';
import { addFullShop, type FullShop } from './full-shop.ts';
import { expectRefusal } from './refusal.ts';

const withId = endpoints.filter(({ path }) => path.includes('{'));

const linked = ['customer', 'segment', 'flow', 'email_campaign', 'template_campaign'];
const rowCount = 27;

/** An API that allows a key one request a minute. */
const it = test.extend('limited', { scope: 'file' }, ({ database, directory }, { onCleanup }) => {
  const limited = createTestApi(database.pool, directory, { rateLimitPerMinute: 1 });
  onCleanup(async () => (await limited).close());
  return limited;
});

let database: TestDatabase;
let api: TestApi;
let shop: FullShop;
let other: FullShop;
it.beforeAll(async ({ database: ownDatabase, api: ownApi }) => {
  [database, api] = [ownDatabase, ownApi];
  shop = await addFullShop(database.pool, 'Mine', rowCount);
  // One customer has all purchases, so the list of a customer's purchases has all rows.
  await database.pool.query(
    `update purchases set customer_id =
       (select min(id) from customers where organization_id = $1) where organization_id = $1`,
    [shop.organizationId],
  );
  other = await addFullShop(database.pool, 'Theirs', 1);
});

const firstId = (resource: IdentifiedResource) => shop.ids[resource][0] as string;
const urlOf = (endpoint: Endpoint, idOf = firstId) => endpointUrl(endpoint, idOf);

/** The items of a list, or the single object. */
async function itemsOf(endpoint: Endpoint): Promise<Item[]> {
  const response = await api.get(urlOf(endpoint), shop.secret);
  expect(response.statusCode, response.body).toBe(200);
  expect(response.headers['content-type']).toMatch(/^application\/json\b/);
  return endpoint.kind === 'list' ? response.json().data : [response.json()];
}

describe.each(endpoints)('GET /v1$path', (endpoint) => {
  it('returns JSON that names its object type to a key with the scope read', async () => {
    const items = await itemsOf(endpoint);
    expect(items.length).toBeGreaterThan(0);
    for (const item of items) {
      expect(item.object).toBe(endpoint.object);
      const prefix = prefixes[endpoint.object as IdentifiedResource];
      if (prefix === undefined) continue;
      expect(item.id).toMatch(new RegExp(`^${prefix}[A-Za-z0-9_-]+$`));
      expect('html_url' in item).toBe(linked.includes(endpoint.object));
    }
  });

  it('returns money in whole cents, times in UTC, and null in statistics only', async () => {
    const json = JSON.stringify(await itemsOf(endpoint));
    for (const [member, name = '', value] of json.matchAll(/"(\w+)":("[^"]*"|[^"[{,}]+)/g)) {
      if (name.endsWith('_in_cents')) expect(value, member).toMatch(/^-?\d+$/);
      if (/_(at|for|date)$/.test(name)) {
        expect(value, member).toMatch(/^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z"$/);
      }
      const mayBeNull = endpoint.kind === 'aggregate' && /^(currency|group_by|key)$/.test(name);
      if (!mayBeNull) expect(value, member).not.toBe('null');
    }
  });

  it('requires a key with the scope read', async () => {
    expectRefusal(await api.get(urlOf(endpoint)), 'authentication_error');
    const { secret } = await addKey(database.pool, shop.organizationId, { scopes: ['write'] });
    const denied = await api.get(urlOf(endpoint), secret);
    expectRefusal(denied, 'permission_denied');
    expect(denied.headers).not.toHaveProperty('www-authenticate');
  });

  it('refuses methods that write, and request bodies', async () => {
    const headers = { authorization: `Bearer ${shop.secret}` };
    const request = { url: urlOf(endpoint), headers };
    const methods = ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND'] as const;
    for (const method of methods) {
      const response = await api.app.inject({ ...request, method } as InjectOptions);
      expectRefusal(response, 'invalid_request');
    }
    const ofType = (type: string) => ({ headers: { ...headers, 'content-type': type } });
    const bodies = [
      { payload: 'a' },
      { payload: 'a', ...ofType('application/x-unknown') },
      { payload: 'a=1', ...ofType('application/x-www-form-urlencoded') },
      { payload: '{}', ...ofType('application/json') },
      { payload: '{', ...ofType('application/json') },
      { payload: JSON.stringify('a'.repeat(100_000)), ...ofType('application/json') },
      { headers: { ...headers, 'transfer-encoding': 'chunked' } },
    ];
    // All routes refuse bodies by one function, so each gets one.
    const body = bodies[endpoints.indexOf(endpoint) % bodies.length];
    for (const method of ['GET', 'POST'] as const) {
      const response = await api.app.inject({ ...request, method, ...body });
      expectRefusal(response, 'invalid_request');
    }
  });

  it('returns the remaining rate limit, and refuses requests beyond it', async ({ limited }) => {
    const { secret } = await addKey(database.pool, shop.organizationId);
    const first = await limited.get(urlOf(endpoint), secret);
    expect(first.statusCode).toBe(200);
    expect(first.headers).toMatchObject({
      'x-ratelimit-limit': '1',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    });
    expect(first.headers).not.toHaveProperty('retry-after');
    const second = await limited.get(urlOf(endpoint), secret);
    const { retry_after: seconds } = expectRefusal(second, 'rate_limited');
    expect(second.headers['retry-after']).toBe(String(seconds));
    expect(second.headers['x-ratelimit-remaining']).toBe('0');
  });
});

describe.each(withId)('the id in /v1$path', (endpoint) => {
  const resource = /\{(\w+)\}/.exec(endpoint.path)?.[1] as IdentifiedResource;

  it('is 404 if it is unknown or of another organization', async () => {
    const theirs = other.ids[resource][0] as string;
    const unknown = encodeId(resource, 10n ** 12n);
    for (const id of [theirs, `${theirs}x`, unknown, `${prefixes[resource]}A-z_0`]) {
      expectRefusal(
        await api.get(
          urlOf(endpoint, () => id),
          shop.secret,
        ),
        'not_found',
      );
    }
  });

  it('is 422 and named if its prefix or characters are invalid', async () => {
    const prefix = prefixes[resource];
    const foreign = Object.values(prefixes).filter((one) => one !== prefix);
    const malformed = [
      ...[prefix, `${prefix}a.b`, `${prefix}%20`, 'abc', '1', `${prefix.toUpperCase()}abc`, '%20'],
      ...[`${prefix}%00`, `${prefix}a%20b`, `${prefix}a%2Fb`, `${prefix}%F0%9F%9B%92`],
    ];
    for (const id of [...malformed, ...foreign.map((one) => `${one}abc`)]) {
      const response = await api.get(
        urlOf(endpoint, () => id),
        shop.secret,
      );
      expectRefusal(response, 'validation_error', `${resource}_id`);
    }
  });
});

describe.each(listEndpoints)('the list /v1$path', (endpoint) => {
  const getList = (query: string) => api.get(`${urlOf(endpoint)}?${query}`, shop.secret);

  it('has pages of 25 by default, and of 1 to 100 by limit', async () => {
    const first = (await getList('')).json();
    expect(Object.keys(first).sort()).toEqual(['data', 'has_more']);
    expect(first.data).toHaveLength(25);
    expect(first.has_more).toBe(true);
    const rest = (await getList(`starting_after=${first.data.at(-1).id}`)).json();
    expect(rest.data).toHaveLength(rowCount - 25);
    expect(rest.has_more).toBe(false);
    expect((await getList('limit=1')).json().data).toHaveLength(1);
    expect((await getList('limit=100')).json().data).toHaveLength(rowCount);
    expectRefusal(await getList('limit=101'), 'validation_error', 'limit');
  });

  it('refuses a cursor of another type or of another organization', async () => {
    const resource = endpoint.object as IdentifiedResource;
    const types = Object.keys(prefixes) as IdentifiedResource[];
    const ofOtherTypes = types.filter((type) => type !== resource).map(firstId);
    const foreign = other.ids[resource][0];
    const unknown = encodeId(resource, 10n ** 12n);
    const own = firstId(resource);
    const prefix = prefixes[resource];
    const malformed = [
      ...[own.toUpperCase(), `${own}0`, prefix, `${prefix}nobody`, `${prefix}%00`, `%20${own}`],
      ...[`${own}%0A`, `${prefix}${'a'.repeat(5000)}`, 'abc', '1', '9223372036854775808'],
    ];
    for (const cursor of [...ofOtherTypes, foreign, `${foreign}x`, unknown, ...malformed]) {
      const response = await getList(`starting_after=${cursor}`);
      const { error } = expectRefusal(response, 'invalid_request', 'starting_after');
      expect(error.message).toContain('X-Next-Cursor');
    }
  });

  it('accepts only its own values of sort', async () => {
    for (const sort of ['updated', 'Updated', 'total_spent', 'created', 'name', '']) {
      const response = await getList(`sort=${sort}`);
      if (endpoint.sorts?.includes(sort)) expect(response.statusCode).toBe(200);
      else expectRefusal(response, 'validation_error', 'sort');
    }
  });
});

describe('the service', () => {
  it('serves every endpoint with read-only transactions in Postgres', async ({ directory }) => {
    const url = new URL(database.url);
    url.searchParams.set('options', '-c default_transaction_read_only=on');
    const readOnly: Database = createPool(url.href, { max: 4, applicationName: 'test' });
    const reader = await createTestApi(readOnly, directory);
    try {
      await expect(readOnly.query('delete from tags')).rejects.toThrow(/read-only/);
      for (const endpoint of endpoints) {
        const response = await reader.get(urlOf(endpoint), shop.secret);
        expect(response.statusCode, response.body).toBe(200);
      }
    } finally {
      await reader.close();
      await readOnly.end();
    }
  });

  it.each(['/events', '/webhooks', '/subscriptions', '/organizations', '/api-keys', '/mcp'])(
    'has no route /v1%s',
    async (path) => {
      expectRefusal(await api.get(`/v1${path}`, shop.secret), 'invalid_request');
    },
  );

  it('has no other version', async () => {
    for (const path of ['/me', '/v0/me', '/v2/me', '/v1.0/me', '/V1/me']) {
      expectRefusal(await api.get(path, shop.secret), 'invalid_request');
    }
  });
});
