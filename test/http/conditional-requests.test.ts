import type { LightMyRequestResponse } from 'fastify';
import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { test } from '../support/fixtures.ts';
import { addKey, addPurchase } from '../support/shop.ts';
import { expectRefusal } from './refusal.ts';

describe('conditional requests', () => {
  let organizationId: bigint;
  let purchaseId: bigint;
  let secret: string;

  const it = test.extend(
    'change',
    ({ database }) =>
      () =>
        database.pool.query(
          'update purchases set purchase_value_in_cents = purchase_value_in_cents + 1 where id = $1',
          [purchaseId],
        ),
  );

  it.beforeEach(async ({ database, newShop, newCustomerId }) => {
    ({ organizationId, secret } = newShop);
    purchaseId = await addPurchase(database.pool, organizationId, { customer_id: newCustomerId });
  });

  const urlOf = {
    'the identity': () => '/v1/me',
    'a purchase': () => `/v1/purchases/${encodeId('purchase', purchaseId)}`,
    'the statistics': () => '/v1/purchases/stats?group_by=day',
  };
  const tagged = Object.entries(urlOf);
  const withDataAsOf = tagged.filter(([name]) => name !== 'the identity');
  const tagOf = (response: LightMyRequestResponse) => String(response.headers.etag);

  it.for(tagged)('have for %s an ETag that is a quoted string', async ([_name, url], { api }) => {
    const response = await api.get(url(), secret);
    expect(response.statusCode).toBe(200);
    expect(tagOf(response)).toMatch(/^"[\x21\x23-\x7e]+"$/);
    expect(tagOf(await api.get(url(), secret))).toBe(tagOf(response));
  });

  const matching: readonly (readonly [string, (tag: string) => string])[] = [
    ['the tag itself', (tag) => tag],
    ['the tag marked as weak', (tag) => `W/${tag}`],
    ['any', () => '*'],
    ['a list that ends with it', (tag) => `"a", "b", ${tag}`],
    ['a list that begins with it', (tag) => `${tag},"b"`],
    ['a list without spaces and with weak tags', (tag) => `W/"a",W/${tag},"c"`],
    ['a list with empty elements', (tag) => `, "a" ,, ${tag} ,`],
    ['a list after a tag with a comma', (tag) => `"a,b", ${tag}`],
  ];
  describe.each(tagged)('of %s', (_name, url) => {
    it.for(matching)('result in 304 if %s is sent', async ([_case, header], { api }) => {
      const tag = tagOf(await api.get(url(), secret));
      const response = await api.get(url(), secret, { 'if-none-match': header(tag) });
      expect(response.statusCode).toBe(304);
      expect(response.body).toBe('');
      expect(tagOf(response)).toBe(tag);
    });
  });

  it.for([
    ['another tag', () => '"other"'],
    ['the tag without quotes', (tag: string) => tag.slice(1, -1)],
    ['a truncated tag', (tag: string) => `${tag.slice(0, -2)}"`],
    ['a star in quotes', () => '"*"'],
    ['nothing', () => ''],
    ['an empty tag', () => '""'],
  ] as const)('result in the full response if %s is sent', async ([_case, header], { api }) => {
    const tag = tagOf(await api.get('/v1/me', secret));
    const response = await api.get('/v1/me', secret, { 'if-none-match': header(tag) });
    expect(response.statusCode).toBe(200);
    expect(response.json()).toHaveProperty('object', 'identity');
  });

  it.for(tagged)(
    'result in a 304 of %s with all headers except those of a body',
    async ([name, url], { api }) => {
      const full = await api.get(url(), secret);
      const response = await api.get(url(), secret, { 'if-none-match': '*' });
      expect(response.headers).toMatchObject({
        etag: tagOf(full),
        'cache-control': full.headers['cache-control'],
        vary: full.headers.vary,
        'request-id': expect.stringMatching(/^req_[a-f0-9]{24}$/),
        'x-ratelimit-limit': '1000000',
        'x-ratelimit-remaining': expect.stringMatching(/^\d+$/),
        'x-ratelimit-reset': expect.stringMatching(/Z$/),
      });
      for (const header of ['content-length', 'content-type', 'transfer-encoding']) {
        expect(response.headers).not.toHaveProperty(header);
      }
      expect('x-data-as-of' in response.headers).toBe(name !== 'the identity');
    },
  );

  it('result in private responses that must be revalidated', async ({ api }) => {
    const { headers } = await api.get('/v1/me', secret);
    expect(headers['cache-control']).toBe('private, no-cache');
    expect(headers.vary).toBe('Authorization, Accept, Accept-Encoding');
  });

  it.for(withDataAsOf)(
    'keep the ETag of %s if only the instant of the data changes',
    async ([_name, url], { api }) => {
      const before = await api.get(url(), secret);
      const after = await api.get(url(), secret);
      expect(after.headers['x-data-as-of']).not.toBe(before.headers['x-data-as-of']);
      expect(tagOf(after)).toBe(tagOf(before));
    },
  );

  it.for(withDataAsOf)(
    'change the ETag of %s with its content',
    async ([_name, url], { api, change }) => {
      const before = tagOf(await api.get(url(), secret));
      await change();
      const after = await api.get(url(), secret, { 'if-none-match': before });
      expect(after.statusCode).toBe(200);
      expect(tagOf(after)).not.toBe(before);
    },
  );

  it('change the ETag of the identity with the name of the organization', async ({
    database,
    api,
  }) => {
    const before = tagOf(await api.get('/v1/me', secret));
    await database.pool.query(`update organizations set name = 'Other' where id = $1`, [
      organizationId,
    ]);
    const after = await api.get('/v1/me', secret, { 'if-none-match': before });
    expect(after.statusCode).toBe(200);
    expect(tagOf(after)).not.toBe(before);
  });

  it('have the same ETags in another instance, and from published files', async ({
    database,
    api,
    change,
    newDirectory,
    openWorker,
  }) => {
    const tags = async (from: TestApi) =>
      Promise.all(tagged.map(async ([, url]) => tagOf(await from.get(url(), secret))));
    const before = await tags(api);
    const worker = await openWorker({ dataDirectory: newDirectory });
    const other = await createTestApi(database.pool, newDirectory);
    try {
      expect(await tags(other)).toEqual(before);
      await worker.once([organizationId]);
      expect(await tags(other)).toEqual(before);
      // These responses are from the files, which do not have this change.
      await change();
      expect(await tags(other)).toEqual(before);
      expect(await tags(api)).not.toEqual(before);
    } finally {
      await other.close();
    }
  });

  it('are evaluated after the key, the route, the parameters and existence', async ({
    database,
    api,
  }) => {
    const any = { 'if-none-match': '*' };
    const writer = await addKey(database.pool, organizationId, { scopes: ['write'] });
    expectRefusal(await api.get('/v1/me', undefined, any), 'authentication_error');
    expectRefusal(await api.get('/v1/me', writer.secret, any), 'permission_denied');
    expectRefusal(await api.get('/v1/nothing', secret, any), 'invalid_request');
    const stats = await api.get('/v1/purchases/stats?limit=1', secret, any);
    expectRefusal(stats, 'validation_error', 'limit');
    const unknown = `/v1/purchases/${encodeId('purchase', 999_999_999n)}`;
    const missing = await api.get(unknown, secret, any);
    expectRefusal(missing, 'not_found');
    expect(missing.headers).not.toHaveProperty('etag');
  });
});
