import fc from 'fast-check';
import type { PurchaseValues } from './shop.ts';

/** Labels whose order, case or encoding may differ between engines. */
export const awkwardLabels = [
  'summer',
  'Summer',
  'summer ',
  // A byte order mark is part of the text.
  '\ufeffsummer',
  '\ufeff',
  '',
  'verão',
  'VERÃO',
  'vera\u0303o',
  '夏',
  '🏖️',
  "o'neill; drop table purchases",
  '%',
  'null',
  'a\tb\nc',
  'z'.repeat(300),
] as const;

const label = fc.option(fc.constantFrom(...awkwardLabels), { nil: null, freq: 3 });

/** Few instants, so that many purchases have the same one. They include the first and the last. */
export const awkwardInstants = [
  '0001-01-01T00:00:00Z',
  '0999-12-31T23:59:59.999999Z',
  '1969-12-31T23:59:59.999999Z',
  '1970-01-01T00:00:00Z',
  '2024-02-29T23:59:59.999999Z',
  '2024-03-01T00:00:00Z',
  '2026-01-01T00:00:00.000001Z',
  '2026-01-01T00:00:00.000002Z',
  '9999-12-31T23:59:59.999999Z',
] as const;

export const awkwardAmounts = [
  0n,
  1n,
  -1n,
  99n,
  100n,
  101n,
  2n ** 53n + 1n,
  2n ** 62n,
  // Without an opposite of 64 bits.
  -(2n ** 63n),
] as const;

const coupons = fc.option(
  fc.constantFrom(
    '[]',
    '[{"id":"c1","code":"VERÃO10","value":10.50,"type":"percentage"}]',
    '[{"id":"c2","code":null,"value":1e3}, {"id":"c3"}]',
    '[{"code":"VERÃO10"}, {"code":"FREE"}, {"code":"VERÃO10"}]',
    '[{"code":7}, {"code":"7"}, {"code":12.0}, {"code":1.50}]',
    '[{"code":123456789012345678901234567890}, {"code":"a, 12", "value":12345678901234567890}]',
    '[{"code":""}, {"code":"a\\"b\\\\c\\n"}]',
    JSON.stringify(Array(60).fill({ code: 'FREE', type: 'z'.repeat(60) })),
    JSON.stringify([{ code: 'y'.repeat(4082) }]),
    JSON.stringify([{ code: 'y'.repeat(4083) }]),
    '[7, "FREE", null, ["FREE"], [{"code":"FREE"}], {"code":{"code":"FREE"}}, {"code":true}, {"code":["FREE"]}]',
  ),
  { nil: null, freq: 2 },
);
const cents = fc.option(fc.constantFrom(...awkwardAmounts), { nil: null });
const instant = fc.constantFrom(...awkwardInstants);

/** A purchase of one of `customers`. */
export function awkwardPurchase(customers: readonly bigint[]): fc.Arbitrary<PurchaseValues> {
  return fc.record({
    customer_id: fc.constantFrom(...customers),
    purchase_value_in_cents: fc.constantFrom(...awkwardAmounts),
    created_at: instant,
    updated_at: instant,
    order_id_on_integration_platform: label,
    order_number: label,
    platform: fc.option(fc.constantFrom('shopify', 'bling', 'popup', 'other'), { nil: null }),
    status: fc.option(fc.constantFrom('open', 'closed'), { nil: null }),
    payment_status: fc.option(fc.constantFrom('paid', 'pending', 'refunded', 'other', 'Paid', ''), {
      nil: null,
    }),
    shipping_status: fc.option(fc.constantFrom('shipped', 'unpacked'), { nil: null }),
    currency: fc.option(fc.constantFrom('BRL', 'USD', 'JPY', 'KWD', 'CLF', 'jpy', ''), {
      nil: null,
    }),
    subtotal_amount_in_cents: cents,
    total_amount_in_cents: cents,
    discount_in_cents: cents,
    shipping_cost_customer_in_cents: cents,
    coupons,
    utm_source: label,
    utm_medium: label,
    utm_campaign: label,
    utm_content: label,
    utm_term: label,
  });
}
