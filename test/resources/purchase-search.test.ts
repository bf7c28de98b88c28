import { describe, expect } from 'vitest';
import { test } from '../support/fixtures.ts';
import { addCustomer, addPurchase } from '../support/shop.ts';

const it = test.extend('found', ({ get }) => async (text: string, limit = 25) => {
  const response = await get(
    `/v1/purchases/search?order_number=${encodeURIComponent(text)}&limit=${limit}`,
  );
  const { data, has_more } = response.json<{
    data: { order_number: string; purchase_value_in_cents: number }[];
    has_more: boolean;
  }>();
  const rows = data.map((one) => `${one.order_number} ${one.purchase_value_in_cents}`);
  return has_more ? [...rows, 'more'] : rows;
});

it.beforeAll(async ({ database: { pool }, shop, otherShop }) => {
  for (const { organizationId } of [otherShop, shop]) {
    const customer_id = await addCustomer(pool, organizationId);
    for (const [day, order_number] of ['1001', '#1001', '10010', 'A-1/2', '1001'].entries()) {
      await addPurchase(pool, organizationId, {
        ...{ customer_id, order_number, created_at: `2026-01-0${day + 1}T12:00:00Z` },
        purchase_value_in_cents: day + 1,
      });
    }
  }
});

describe('the search of purchases', () => {
  it('finds an order number, with or without its sign, newest first', async ({ found }) => {
    expect(await found('1001')).toEqual(['1001 5', '#1001 2', '1001 1']);
    expect(await found(' #1001 ')).toEqual(['1001 5', '#1001 2', '1001 1']);
    expect(await found('1001', 2)).toEqual(['1001 5', '#1001 2', 'more']);
    expect(await found('A-1/2')).toEqual(['A-1/2 4']);
    expect(await found('100')).toEqual([]);
    expect(await found('a-1/2')).toEqual([]);
  });
});
