import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { test as it } from '../support/fixtures.ts';
import { exactly, objectsIn } from './formats/reading.ts';
import { customerUrl, purchaseUrl, servedShop } from './served-shop.ts';

describe('purchases', () => {
  const shop = servedShop();

  /** Stores purchases, and returns the JSON of each from the three routes that return it. */
  async function shown(...stored: Parameters<typeof shop.add>[0][]): Promise<string[][]> {
    const ids: bigint[] = [];
    for (const values of stored) ids.push(await shop.add(values));
    await shop.publish();
    const lists: string[][] = [];
    for (const url of ['/v1/purchases', customerUrl(shop.customerId)]) {
      const { statusCode, body } = await shop.get(url);
      expect(statusCode, body).toBe(200);
      lists.push(objectsIn(body, 'data'));
    }
    const all: string[][] = [];
    for (const id of ids) {
      const { statusCode, body } = await shop.get(purchaseUrl(id));
      expect(statusCode, body).toBe(200);
      const isIt = (text: string) => JSON.parse(text).id === encodeId('purchase', id);
      all.push([body, ...lists.map((texts) => texts.find(isIt) ?? 'missing')]);
    }
    return all;
  }

  it('show every field of the specification', async () => {
    const fields = {
      order_id_on_integration_platform: 'gid://shop/1',
      order_number: '#1001 "é" \u2028\u0007 🛒',
      platform: 'nuvemshop',
      status: 'open',
      payment_status: 'paid',
      shipping_status: 'unshipped',
      currency: 'BRL',
      subtotal_amount_in_cents: 12_000,
      total_amount_in_cents: 12_345,
      discount_in_cents: -5,
      shipping_cost_customer_in_cents: 0,
      utm_source: 'news',
      utm_medium: 'email',
      utm_campaign: 'páscoa',
      utm_content: '',
      utm_term: 'sapato preto',
    };
    const coupons = [{ id: '7', code: 'OFF10', value: 10.5, type: 'percentage' }];
    const [texts = []] = await shown({
      ...fields,
      purchase_value_in_cents: 12_345,
      created_at: '2026-01-02T00:04:05.123456+03:00',
      updated_at: '2026-02-03T04:05:06.000007Z',
      coupons: JSON.stringify(coupons),
    });
    for (const text of texts) {
      expect(JSON.parse(text)).toStrictEqual({
        object: 'purchase',
        id: expect.stringMatching(/^pur_/),
        customer_id: encodeId('customer', shop.customerId),
        purchase_value_in_cents: 12_345,
        created_at: '2026-01-01T21:04:05.123456Z',
        updated_at: '2026-02-03T04:05:06.000007Z',
        ...fields,
        coupons,
        attributed_flow_ids: [],
      });
    }
  });

  it('omit fields without a value', async () => {
    const instant = '2026-01-01T00:00:00Z';
    const [texts = []] = await shown({ created_at: instant, updated_at: instant });
    for (const text of texts) {
      expect(JSON.parse(text)).toStrictEqual({
        object: 'purchase',
        id: expect.stringMatching(/^pur_/),
        customer_id: encodeId('customer', shop.customerId),
        purchase_value_in_cents: 100,
        created_at: '2026-01-01T00:00:00.000000Z',
        updated_at: '2026-01-01T00:00:00.000000Z',
        attributed_flow_ids: [],
      });
    }
  });

  it('show instants to the microsecond', async () => {
    const instants = [
      '0001-01-01T00:00:00.000000Z',
      '1969-12-31T23:59:59.999999Z',
      '1970-01-01T00:00:00.000001Z',
      '9999-12-31T23:59:59.999999Z',
    ];
    const all = await shown(...instants.map((at) => ({ created_at: at, updated_at: at })));
    for (const [index, instant] of instants.entries()) {
      for (const text of all[index] as string[]) {
        expect(JSON.parse(text)).toMatchObject({ created_at: instant, updated_at: instant });
      }
    }
  });

  it('show amounts exactly', async () => {
    const amounts = [2n ** 53n + 1n, -(2n ** 53n) - 1n, 2n ** 63n - 1n, -(2n ** 63n)];
    const all = await shown(
      ...amounts.map((cents) => ({ purchase_value_in_cents: cents, total_amount_in_cents: cents })),
    );
    for (const [index, cents] of amounts.entries()) {
      for (const text of all[index] as string[]) {
        expect(exactly(text)).toMatchObject({
          purchase_value_in_cents: `\u0001${cents}`,
          total_amount_in_cents: `\u0001${cents}`,
        });
      }
    }
  });

  it('show any stored coupons in the shape of the specification', async () => {
    const field = { id: 'string', code: 'string', value: 'number', type: 'string' } as const;
    const stored = [
      '[]',
      '[{}]',
      '[{"id":null,"code":null,"value":null,"type":null}]',
      '[{"id":7,"code":true,"value":"10","type":[]}]',
      '[{"code":"A","secret":"x","__proto__":{"value":1}}]',
      // An element that is no object is no coupon.
      '[null,1,"a",[1],true]',
      '[{"value":-0.1},{"value":1e-7},{"value":0}]',
      '[{"code":"A","value":1e400},{"value":-1e400}]',
      '[{"code":"\\"\\\\ \\u2028 🛒 </script>"}]',
    ];
    const all = await shown(...stored.map((coupons) => ({ coupons })));
    for (const [index, json] of stored.entries()) {
      for (const text of all[index] as string[]) {
        const { coupons } = JSON.parse(text);
        expect(coupons).toHaveLength(JSON.parse(json).filter(isObject).length);
        for (const [name, value] of coupons.flatMap(Object.entries)) {
          expect([name, typeof value], json).toEqual([name, field[name as keyof typeof field]]);
        }
        expect(text).not.toContain('secret');
      }
    }
  });

  it('show the values of coupons exactly', async () => {
    const values = ['12345678901234567890', '0.1234567890123456789', '10.50', '-0.0000001', '7'];
    const all = await shown(
      ...values.map((value) => ({ coupons: `[{"id":${value},"value":${value}}]` })),
    );
    for (const [index, value] of values.entries()) {
      for (const text of all[index] as string[]) {
        expect(text).toContain(`"coupons":[{"id":"${value}","value":${value}}]`);
      }
    }
  });

  it('show the fields of coupons as they are stored', async () => {
    const coupons = [{ code: '"\\ \u2028 🛒', value: -0.1 }, { type: '' }, { id: '', value: 1e-7 }];
    const [texts = []] = await shown({ coupons: JSON.stringify(coupons) });
    for (const text of texts) expect(JSON.parse(text).coupons).toStrictEqual(coupons);
  });
});

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
