import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { test as it } from '../support/fixtures.ts';
import { addCustomer } from '../support/shop.ts';
import { expectRefusal } from './refusal.ts';
import { customerUrl, purchaseUrl, servedShop, servings } from './served-shop.ts';

const idsIn = (body: { data: { id: string }[] }) => body.data.map(({ id }) => id);

describe.each(servings)('purchases, %s,', (serving) => {
  const shop = servedShop(serving);

  it('are listed newest first, each exactly once', async () => {
    const instants = ['2026-01-01', '2026-01-03', '2026-01-02', '2026-01-03', '2026-01-03'];
    const ids: bigint[] = [];
    for (const day of instants) ids.push(await shop.add({ created_at: `${day}T00:00:00Z` }));
    await shop.publish();
    const expected = [4, 3, 1, 2, 0].map((index) => encodeId('purchase', ids[index] as bigint));
    for (const url of ['/v1/purchases', customerUrl(shop.customerId)]) {
      for (const limit of [1, 2, 5, 6]) {
        const seen: string[] = [];
        let hasMore = true;
        while (hasMore) {
          const after = seen.length === 0 ? '' : `&starting_after=${seen.at(-1)}`;
          const page = (await shop.get(`${url}?limit=${limit}${after}`)).json();
          expect(Object.keys(page).sort()).toEqual(['data', 'has_more']);
          expect(page.data.length).toBeLessThanOrEqual(limit);
          seen.push(...idsIn(page));
          hasMore = page.has_more;
          expect(hasMore).toBe(seen.length < expected.length);
        }
        expect(seen).toEqual(expected);
      }
    }
  });

  it('continue after a purchase that the filters exclude', async () => {
    const older = await shop.add({ created_at: '2026-01-01T00:00:00Z', platform: 'popup' });
    const cursor = await shop.add({ created_at: '2026-01-02T00:00:00Z', platform: 'bling' });
    await shop.add({ created_at: '2026-01-03T00:00:00Z', platform: 'popup' });
    await shop.publish();
    const query = `platform=popup&starting_after=${encodeId('purchase', cursor)}`;
    const page = await shop.get(`/v1/purchases?${query}`);
    expect(idsIn(page.json())).toEqual([encodeId('purchase', older)]);
  });

  it('of one customer are that customer’s only', async () => {
    const other = await addCustomer(shop.database.pool, shop.organizationId);
    const idle = await addCustomer(shop.database.pool, shop.organizationId);
    const own = await shop.add({ platform: 'popup' });
    const others = await shop.add({ customer_id: other });
    await shop.publish();
    const listed = async (url: string) => idsIn((await shop.get(url)).json());
    expect(await listed(customerUrl(shop.customerId))).toEqual([encodeId('purchase', own)]);
    expect(await listed(customerUrl(other))).toEqual([encodeId('purchase', others)]);
    expect(await listed(`${customerUrl(other)}?platform=popup`)).toEqual([]);
    const query = `customer_id=${encodeId('customer', other)}`;
    expect(await listed(`/v1/purchases?${query}`)).toEqual([encodeId('purchase', others)]);
    const stats = (await shop.get(`/v1/purchases/stats?${query}`)).json();
    expect(stats).toMatchObject({ purchase_count: 1, customer_count: 1 });
    const refused = await shop.get(`${customerUrl(shop.customerId)}?${query}`);
    expectRefusal(refused, 'validation_error', 'customer_id');
    const nothing = await shop.get(customerUrl(idle));
    expect(nothing.json()).toStrictEqual({ data: [], has_more: false });
  });

  it('have the instant of their data in a header', async () => {
    const id = await shop.add();
    await shop.publish();
    // Only Postgres has this purchase, so the count shows which engine responds.
    await shop.add();
    const isPublished = serving === 'from published files';
    const count = (await shop.get('/v1/purchases/stats')).json().purchase_count;
    expect(count).toBe(isPublished ? 1 : 2);
    const urls = [
      '/v1/purchases',
      purchaseUrl(id),
      // A missing purchase may be newer than the data.
      purchaseUrl(1_000_000n),
      '/v1/purchases/stats',
      customerUrl(shop.customerId),
    ];
    const instants = new Set<string>();
    for (const url of urls) {
      const asOf = String((await shop.get(url)).headers['x-data-as-of']);
      expect(asOf).toMatch(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$/);
      instants.add(asOf);
    }
    expect(instants.size).toBe(isPublished ? 1 : urls.length);
    expect((await shop.get('/v1/me')).headers).not.toHaveProperty('x-data-as-of');
  });
});
