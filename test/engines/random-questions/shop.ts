import fc from 'fast-check';
import { formatInstant } from '../../../src/domain/instant.ts';
import { awkwardLabels } from '../../support/awkward-purchases.ts';
import {
  instantOf,
  type Moment,
  moment,
  origins,
  outermostOrigins,
  withinYears,
} from './moments.ts';

/** Purchases that are made together. Each value follows from the position of a purchase and from `seed`. */
export type Burst = {
  readonly count: number;
  readonly from: Moment;
  /** Minutes between the first purchase and the end; 0: all at the same instant. */
  readonly minutes: number;
  readonly customers: number;
  readonly firstCustomer: number;
  readonly labels: keyof typeof labelsOf;
  readonly currencies: keyof typeof currenciesOf;
  readonly statuses: keyof typeof statusesOf;
  readonly amounts: keyof typeof amountsOf;
  readonly coupons: keyof typeof couponsOf;
  readonly seed: number;
};

/** The customers of each shop. */
export const customerCount = 40;

export type ShopPlan = { readonly origins: readonly string[]; readonly bursts: readonly Burst[] };

export const labelsOf = {
  none: [null],
  few: ['google', 'facebook', null],
  cases: ['Google', 'google', 'GOOGLE', ''],
  awkward: [...awkwardLabels, null],
  many: Array.from({ length: 70 }, (_, number) => `campaign ${number}`),
} as const;
export const currenciesOf = {
  none: [null],
  one: ['BRL'],
  other: ['USD'],
  // Few purchases have another one, or none.
  oneAndFewWithout: [...Array(12).fill('BRL'), null],
  oneAndFewOthers: [...Array(12).fill('BRL'), 'USD'],
  several: ['BRL', 'USD', 'JPY', null, 'brl'],
} as const;
export const statusesOf = {
  none: [null],
  paid: ['paid'],
  mostlyPaid: ['paid', 'paid', 'paid', 'pending', 'refunded'],
  every: ['pending', 'authorized', 'paid', 'abandoned', 'refunded', 'voided', 'Paid', null],
} as const;
export const amountsOf = {
  same: [1000n],
  small: [0n, 1n, 99n, 100n, 101n, 5000n],
  // Sums have more than 64 bits.
  awkward: [0n, -1n, 1n, 2n ** 53n + 1n, 2n ** 62n, -(2n ** 63n)],
} as const;
const coupon = (code: string) => ({ id: `id of ${code}`, code, value: 10, type: 'percentage' });
const [summer, free] = [coupon('VERÃO10'), coupon('FREE')];
export const couponsOf = {
  none: [null],
  few: [null, null, null, [summer], [free], [free, summer], [summer, summer], []],
  awkward: [...awkwardLabels.map((text) => [coupon(text)]), [{ id: 'without code' }], null],
  many: Array.from({ length: 70 }, (_, number) => [coupon(`code ${number}`), free]),
} as const;
const platforms = ['shopify', 'bling', 'popup', 'other', null] as const;
const shippingStatuses = ['shipped', 'unpacked', null] as const;
const optionalCents = [null, 0n, 5n, -7n, 2n ** 62n] as const;

const names = <Name extends string>(of: Record<Name, unknown>) =>
  fc.constantFrom(...(Object.keys(of) as Name[]));

export const burst: fc.Arbitrary<Burst> = fc.record({
  count: fc.oneof(
    { weight: 4, arbitrary: fc.integer({ min: 1, max: 6 }) },
    { weight: 4, arbitrary: fc.integer({ min: 7, max: 80 }) },
    { weight: 2, arbitrary: fc.integer({ min: 300, max: 900 }) },
  ),
  from: moment,
  minutes: fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(0, 1, 5, 15, 60) },
    { weight: 2, arbitrary: fc.constantFrom(24 * 60, 3 * 24 * 60, 20 * 24 * 60, 100 * 24 * 60) },
  ),
  customers: fc.oneof(fc.constantFrom(1, 2, 5), fc.integer({ min: 1, max: customerCount })),
  firstCustomer: fc.nat({ max: customerCount - 1 }),
  labels: names(labelsOf),
  currencies: names(currenciesOf),
  statuses: names(statusesOf),
  amounts: names(amountsOf),
  coupons: names(couponsOf),
  seed: fc.nat({ max: 1000 }),
});

const originsAmong = (all: readonly string[]) =>
  fc.uniqueArray(fc.constantFrom(...all), { minLength: 1, maxLength: 3 });

export const shopPlan: fc.Arbitrary<ShopPlan> = fc.record({
  // A query of thousands of years with changes of clocks takes up to 30 s.
  origins: fc.oneof(
    { weight: 15, arbitrary: originsAmong(origins) },
    { weight: 1, arbitrary: originsAmong([...origins.slice(-2), ...outermostOrigins]) },
  ),
  bursts: fc.array(burst, { minLength: 1, maxLength: 4 }),
});

/** A number of 32 bits that looks random (the finalizer of MurmurHash3). */
function mix(seed: number, position: number, column: number): number {
  let hash =
    Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(position + 1, 0x85ebca6b) ^ (column * 0xc2b2ae35);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** The values of a purchase for Postgres. Customers are positions. */
export type PlannedPurchase = Readonly<Record<string, unknown>> & {
  readonly customer: number;
  readonly created_at: string;
};

export function purchasesOf(plan: Burst, chosen: readonly string[]): PlannedPurchase[] {
  const { count, minutes, customers, firstCustomer, seed } = plan;
  const from = instantOf(plan.from, chosen);
  return Array.from({ length: count }, (_, position) => {
    const pick = <Value>(values: readonly Value[], column: number): Value =>
      values[mix(seed, position, column) % values.length] as Value;
    const after = (BigInt(minutes) * 60_000_000n * BigInt(position)) / BigInt(count);
    const labels = labelsOf[plan.labels] as readonly (string | null)[];
    const texts = ['utm_source', 'utm_medium', 'utm_campaign', 'utm_content', 'utm_term'];
    return {
      customer: (firstCustomer + (mix(seed, position, 0) % customers)) % customerCount,
      purchase_value_in_cents: String(pick<bigint>(amountsOf[plan.amounts], 1)),
      created_at: formatInstant(withinYears(from + after)),
      updated_at: formatInstant(withinYears(from + after)),
      payment_status: pick<string | null>(statusesOf[plan.statuses], 2),
      currency: pick<string | null>(currenciesOf[plan.currencies], 3),
      platform: pick(platforms, 4),
      shipping_status: pick(shippingStatuses, 5),
      subtotal_amount_in_cents: asText(pick(optionalCents, 6)),
      total_amount_in_cents: asText(pick(optionalCents, 7)),
      discount_in_cents: asText(pick(optionalCents, 8)),
      shipping_cost_customer_in_cents: asText(pick(optionalCents, 9)),
      coupons: pick<object | null>(couponsOf[plan.coupons], 15),
      ...Object.fromEntries(texts.map((name, index) => [name, pick(labels, 10 + index)])),
    };
  });
}

const asText = (cents: bigint | null) => (cents === null ? null : String(cents));
