import { describe, expect, it } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { customerUrl, purchaseUrl, servedShop, servings } from './served-shop.ts';

describe.each(servings)('purchases, %s,', (serving) => {
  const shop = servedShop(serving);

  /** The purchase by each of the three routes that show it, as text. */
  async function shown(id: bigint): Promise<string[]> {
    const [single, list, ofCustomer] = [
      await shop.get(purchaseUrl(id)),
      await shop.get('/v1/purchases'),
      await shop.get(customerUrl(shop.customerId)),
    ];
    for (const response of [single, list, ofCustomer]) {
      expect(response.statusCode, response.body).toBe(200);
    }
    const inList = (text: string) =>
      /^\{"data":\[(.*)\],"has_more":false\}$/s.exec(text)?.[1] ?? '';
    return [single.body, inList(list.body), inList(ofCustomer.body)];
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
    const id = await shop.add({
      ...fields,
      purchase_value_in_cents: 12_345,
      created_at: '2026-01-02T00:04:05.123456+03:00',
      updated_at: '2026-02-03T04:05:06.000007Z',
      coupons: JSON.stringify(coupons),
    });
    await shop.publish();
    for (const text of await shown(id)) {
      expect(JSON.parse(text)).toStrictEqual({
        object: 'purchase',
        id: encodeId('purchase', id),
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

  it('leave out, rather than return as null, what has no value', async () => {
    const instant = '2026-01-01T00:00:00Z';
    const id = await shop.add({ created_at: instant, updated_at: instant });
    await shop.publish();
    for (const text of await shown(id)) {
      expect(JSON.parse(text)).toStrictEqual({
        object: 'purchase',
        id: encodeId('purchase', id),
        customer_id: encodeId('customer', shop.customerId),
        purchase_value_in_cents: 100,
        created_at: '2026-01-01T00:00:00.000000Z',
        updated_at: '2026-01-01T00:00:00.000000Z',
        attributed_flow_ids: [],
      });
    }
  });

  it.each([
    '0001-01-01T00:00:00.000000Z',
    '1969-12-31T23:59:59.999999Z',
    '1970-01-01T00:00:00.000001Z',
    '9999-12-31T23:59:59.999999Z',
  ])('show the instant %s to the microsecond', async (instant) => {
    const id = await shop.add({ created_at: instant, updated_at: instant });
    await shop.publish();
    for (const text of await shown(id)) {
      expect(JSON.parse(text)).toMatchObject({ created_at: instant, updated_at: instant });
    }
  });

  it.each(['9007199254740993', '-9007199254740993', '9223372036854775807', '-9223372036854775808'])(
    'show %s cents digit by digit',
    async (cents) => {
      const amount = BigInt(cents);
      const id = await shop.add({ purchase_value_in_cents: amount, total_amount_in_cents: amount });
      await shop.publish();
      for (const text of await shown(id)) {
        expect(text.match(/"purchase_value_in_cents":[^,}]+/g)).toEqual([
          `"purchase_value_in_cents":${cents}`,
        ]);
        expect(text.match(/"total_amount_in_cents":[^,}]+/g)).toEqual([
          `"total_amount_in_cents":${cents}`,
        ]);
      }
    },
  );

  const field = { id: 'string', code: 'string', value: 'number', type: 'string' } as const;
  it.each([
    ['none', '[]'],
    ['without fields', '[{}]'],
    ['of nulls', '[{"id":null,"code":null,"value":null,"type":null}]'],
    ['of the wrong types', '[{"id":7,"code":true,"value":"10","type":[]}]'],
    ['with more than is documented', '[{"code":"A","secret":"x","__proto__":{"value":1}}]'],
    ['that are no objects', '[null,1,"a",[1],true]'],
    ['with fractions', '[{"value":-0.1},{"value":1e-7},{"value":0}]'],
    ['with numbers that no double holds', '[{"code":"A","value":1e400},{"value":-1e400}]'],
    ['with odd text', '[{"code":"\\"\\\\ \\u2028 🛒 </script>"}]'],
  ])('show coupons %s in the shape of the specification', async (_which, stored) => {
    const id = await shop.add({ coupons: stored });
    await shop.publish();
    for (const text of await shown(id)) {
      const { coupons } = JSON.parse(text);
      // What is no object is no coupon.
      expect(coupons).toHaveLength(JSON.parse(stored).filter(isObject).length);
      for (const coupon of coupons) {
        for (const [name, value] of Object.entries(coupon)) {
          expect([name, typeof value]).toEqual([name, field[name as keyof typeof field]]);
        }
      }
      expect(text).not.toContain('secret');
    }
  });

  it.each(['12345678901234567890', '0.1234567890123456789', '10.50', '-0.0000001', '7'])(
    'show the value %s of a coupon digit by digit',
    async (value) => {
      const id = await shop.add({ coupons: `[{"id":${value},"value":${value}}]` });
      await shop.publish();
      for (const text of await shown(id)) {
        expect(text).toContain(`"coupons":[{"id":"${value}","value":${value}}]`);
      }
    },
  );

  it('show the fields of coupons as they are stored', async () => {
    const coupons = [{ code: '"\\ \u2028 🛒', value: -0.1 }, { type: '' }, { id: '', value: 1e-7 }];
    const id = await shop.add({ coupons: JSON.stringify(coupons) });
    await shop.publish();
    for (const text of await shown(id)) expect(JSON.parse(text).coupons).toStrictEqual(coupons);
  });
});

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
