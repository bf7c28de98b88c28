import type { OrganizationProfile } from './organization-profile.ts';
import type { RandomSource } from './random-source.ts';

export type Coupon = {
  id: string;
  code: string;
  /** Percent, or whole units of the order's currency for `absolute`; `shipping` waives 100 percent. */
  value: number;
  type: 'percentage' | 'absolute' | 'shipping';
};

const COUPON_COUNT = 40;
const CODE_WORDS = [
  'BEMVINDO',
  'VOLTEI',
  'PRIMEIRA',
  'VIP',
  'BLACK',
  'NATAL',
  'MAES',
  'PIX',
  'INSTA',
  'AMIGO',
] as const;

/** What an order may carry: mostly one coupon, sometimes one together with free shipping. */
export function drawCouponSets(profile: OrganizationProfile): Coupon[][] {
  const random = profile.random('coupons');
  const freeShipping: Coupon = {
    id: String(100_000 + random.integer(900_000)),
    code: 'FRETEGRÁTIS',
    value: 100,
    type: 'shipping',
  };
  const coupons = Array.from({ length: COUPON_COUNT }, (_, index) => drawCoupon(index, random));
  return [
    ...coupons.slice(0, 2).map((coupon) => [coupon]),
    [freeShipping],
    ...coupons.slice(2).map((coupon) => [coupon]),
    ...coupons.slice(0, 6).map((coupon) => [coupon, freeShipping]),
  ];
}

function drawCoupon(index: number, random: RandomSource): Coupon {
  const word = CODE_WORDS[index % CODE_WORDS.length] as string;
  const isPercentage = random.chance(0.7);
  const value = isPercentage ? random.pick([5, 10, 10, 15, 20, 30]) : random.pick([10, 20, 25, 50]);
  const round = Math.floor(index / CODE_WORDS.length);
  return {
    id: String(1_000_000 + index * 137 + random.integer(137)),
    code: `${word}${value}${round === 0 ? '' : String.fromCharCode(64 + round)}`,
    value,
    type: isPercentage ? 'percentage' : 'absolute',
  };
}
