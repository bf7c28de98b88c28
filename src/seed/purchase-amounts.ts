import type { Coupon } from './coupons.ts';
import type { OrganizationProfile } from './organization-profile.ts';
import type { PurchasePlan } from './purchase-plan.ts';
import { createWeightedPicker, type RandomSource, zipfWeights } from './random-source.ts';

const PRODUCT_COUNT = 240;
const PRICE_SPREAD = 0.75;
const COUPON_PROBABILITY = 0.13;
/** A discount without a coupon: for paying by Pix. */
const PIX_DISCOUNT_PROBABILITY = 0.14;
const PIX_DISCOUNT = 0.05;
const DOLLAR_PROBABILITY = 0.015;
const REAIS_PER_DOLLAR = 5;
/** Amounts live in 32-bit arrays and stay believable. */
const MAXIMUM_SUBTOTAL_IN_CENTS = 5_000_000;

/** Fills in a purchase's currency, amounts and coupons. */
export type AmountSource = (plan: PurchasePlan, index: number) => void;

export function createAmountSource(
  profile: OrganizationProfile,
  couponSets: readonly (readonly Coupon[])[],
): AmountSource {
  const random = profile.random('purchase amounts');
  const prices = drawPrices(profile, profile.random('products'));
  const pickProduct = createWeightedPicker(zipfWeights(PRODUCT_COUNT, 0.8));
  const pickCouponSet = createWeightedPicker(zipfWeights(couponSets.length, 1.1));

  return (plan, index) => {
    const isDollar = profile.hasDollars && random.chance(DOLLAR_PROBABILITY);
    const rate = isDollar ? REAIS_PER_DOLLAR : 1;
    let basket = 0;
    do {
      const quantity = random.chance(0.12) ? 2 + random.integer(3) : 1;
      basket += (prices[pickProduct(random)] as number) * quantity;
    } while (random.chance(0.36));
    const subtotal = Math.min(MAXIMUM_SUBTOTAL_IN_CENTS, Math.round(basket / rate));
    const shipping = drawShipping(basket, profile, random) / rate;
    const couponSet = random.chance(COUPON_PROBABILITY) ? pickCouponSet(random) : -1;
    const coupons = couponSets[couponSet];
    plan.isDollar[index] = isDollar ? 1 : 0;
    plan.subtotalInCents[index] = subtotal;
    plan.shippingInCents[index] = Math.round(shipping);
    plan.couponSet[index] = couponSet;
    plan.discountInCents[index] =
      coupons !== undefined
        ? couponDiscount(coupons, subtotal, Math.round(shipping))
        : random.chance(PIX_DISCOUNT_PROBABILITY)
          ? Math.round(subtotal * PIX_DISCOUNT)
          : 0;
  };
}

/** Log-normal, the popular ones not dearer than the rest, ending in ,90 or ,99. */
function drawPrices(profile: OrganizationProfile, random: RandomSource): Int32Array {
  const prices = new Int32Array(PRODUCT_COUNT);
  for (let index = 0; index < PRODUCT_COUNT; index++) {
    const price = profile.medianPriceInCents * Math.exp(PRICE_SPREAD * random.normal());
    const reais = Math.max(9, Math.min(20_000, Math.floor(price / 100)));
    prices[index] = reais * 100 + (random.chance(0.7) ? 90 : 99);
  }
  return prices;
}

function drawShipping(basket: number, profile: OrganizationProfile, random: RandomSource): number {
  if (basket >= profile.freeShippingFromInCents || random.chance(0.08)) return 0;
  return 990 + Math.round(Math.exp(6.6 + 0.5 * random.normal()));
}

function couponDiscount(coupons: readonly Coupon[], subtotal: number, shipping: number): number {
  let offProducts = 0;
  let offShipping = 0;
  for (const { type, value } of coupons) {
    if (type === 'shipping') offShipping = shipping;
    else if (type === 'absolute') offProducts += value * 100;
    else offProducts += Math.round((subtotal * value) / 100);
  }
  return Math.min(subtotal, offProducts) + offShipping;
}
