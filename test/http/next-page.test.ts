import { describe, expect } from 'vitest';
import { test } from '../support/fixtures.ts';
import { type Item, readIds } from '../support/paging.ts';
import { endpointUrl, listEndpoints } from './endpoints.ts';
import { addFullShop, type FullShop } from './full-shop.ts';

describe('the link to the next page', () => {
  let shop: FullShop;

  const it = test
    .extend('getPage', ({ api }) => async (url: string) => {
      const response = await api.get(url, shop.secret);
      expect(response.statusCode, response.body).toBe(200);
      return response;
    })
    .extend(
      'readAll',
      ({ getPage }) =>
        async (from: string): Promise<{ ids: string[]; pages: number }> => {
          const ids: string[] = [];
          let pages = 0;
          for (let url: string | null = from; url !== null; pages += 1) {
            const response = await getPage(url);
            const { data, has_more } = response.json<{ data: Item[]; has_more: boolean }>();
            ids.push(...data.map(({ id }) => id));
            expect('link' in response.headers).toBe(has_more);
            url = nextOf(response, url);
          }
          return { ids, pages };
        },
    );

  it.beforeAll(async ({ database, worker }) => {
    shop = await addFullShop(database.pool, 'Mine', 9);
    await database.pool.query(
      'update purchases set customer_id = (select min(customer_id) from purchases)',
    );
    await worker.syncAll();
  });

  /** The URL of the next page, from the header Link as in RFC 8288 and RFC 3986. */
  const nextOf = ({ headers }: { headers: Record<string, unknown> }, url: string) => {
    if (headers.link === undefined) return null;
    const [, target = ''] = /^<([^<>]*)>; rel="next"$/.exec(String(headers.link)) ?? [];
    const { pathname, search } = new URL(target, `https://api.example${url}`);
    return pathname + search;
  };

  // `resources/lists.test.ts` follows the links of the others.
  it.for(listEndpoints.filter(({ path }) => /purchases|\{/.test(path)))(
    'leads to all pages of $path, and again from the cache',
    async (endpoint, { api, readAll }) => {
      const url = endpointUrl(endpoint, (resource) => shop.ids[resource][0] as string);
      const ids = await readIds(api, shop.secret, url);
      expect(ids).toHaveLength(9);
      for (let round = 0; round < 2; round += 1) {
        expect(await readAll(`${url}?limit=4`)).toEqual({ ids, pages: 3 });
      }
      expect(await readAll(`${url}?limit=9`)).toEqual({ ids, pages: 1 });
    },
  );

  it('keeps the parameters in any spelling, and replaces the cursor', async ({
    api,
    getPage,
    readAll,
  }) => {
    const names = encodeURIComponent('Mine');
    const url = `/v1/customers?q=${names}+n%61me&limit=4&sort=updated&created_since=2026-01-01T00:00:00%2B02:00`;
    const second = String(nextOf(await getPage(url), url));
    const { searchParams } = new URL(second, 'https://api.example');
    expect(Object.fromEntries(searchParams)).toEqual({
      q: 'Mine name',
      limit: '4',
      sort: 'updated',
      created_since: '2026-01-01T00:00:00+02:00',
      starting_after: expect.stringMatching(/^cus_/),
    });
    const rewritten = second.replace('starting_after', 'starting%5Fafter');
    expect((await readAll(rewritten)).ids).toEqual((await readAll(second)).ids);
    const [all, pages] = [await readIds(api, shop.secret, '/v1/customers?sort=updated'), 3];
    expect(await readAll(url)).toEqual({ ids: all, pages });
  });

  it('keeps all values of a parameter that is given several times', async ({
    database,
    worker,
    readAll,
  }) => {
    await database.pool.query("update purchases set utm_content = 'b,c' where id % 2 = 0");
    await database.pool.query("update purchases set utm_content = 'a' where id % 2 = 1");
    await worker.syncAll();
    const url = '/v1/purchases?limit=2&utm_content=a';
    const { ids } = await readAll(url);
    expect(ids.length).toBeLessThan(6);
    expect((await readAll(`${url}&utm_content=b,c`)).ids).toHaveLength(9);
  });

  it('escapes the parameters', async ({ database, getPage, readAll }) => {
    const inject = '%3E;%20rel=%22prev%22,%20%3Chttps://evil.example%0D%0AX-Evil:%201%C3%A9';
    const url = `/v1/segments?limit=1&q=${inject}`;
    await database.pool.query('update segments set name = $1', [
      '>; rel="prev", <https://evil.example\r\nX-Evil: 1é',
    ]);
    const response = await getPage(url);
    expect(response.headers).not.toHaveProperty('x-evil');
    expect((await readAll(url)).ids).toHaveLength(9);
  });

  it('is on HEAD too, and not on errors', async ({ api, getPage }) => {
    const headers = { authorization: `Bearer ${shop.secret}` };
    for (const path of ['/v1/purchases?limit=2', '/v1/tags?limit=2']) {
      const { headers: expected } = await getPage(path);
      const head = await api.app.inject({ method: 'HEAD', url: path, headers });
      expect(head.headers.link).toBe(expected.link);
    }
    const refused = await api.get('/v1/purchases?limit=0', shop.secret);
    expect(refused.headers).not.toHaveProperty('link');
  });
});
