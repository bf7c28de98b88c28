import { hourMs } from './calendar.ts';
import type { Campaign } from './campaigns.ts';
import { type Customers, type CustomerTotals, createBuyerPicker } from './customers.ts';
import { createWeightedPicker, type RandomSource, zipfWeights } from './random-source.ts';
import { type Shop, slugOf } from './shop.ts';

/** Weight, source, medium and campaign. */
const sources: readonly (readonly [number, string | null, string | null, string | null])[] = [
  [230, 'google', 'cpc', 'pesquisa-marca'],
  [150, 'facebook', 'paid', 'remarketing-carrinho'],
  [115, 'crm', 'email', 'carrinho-abandonado'],
  [90, 'instagram', 'paid', 'prospecção-lookalike'],
  [80, null, null, null],
  [50, 'crm', 'whatsapp', 'boas-vindas'],
  [40, 'google', 'organic', null],
  [28, 'crm', 'email', 'aniversario'],
  [25, 'instagram', 'social', null],
  [22, 'influencer', 'parceria', 'julia-conceição'],
  [20, 'crm', 'sms', 'recompra-60-dias'],
  [10, 'instagram', null, null],
];
const pickSource = createWeightedPicker(sources.map(([weight]) => weight));
const mailingProbability = 0.1;
const contents = ['banner-topo', 'botao-final', 'video-15s', 'stories', null, null] as const;
const terms = ['presente dia das mães', 'frete grátis', 'loja oficial', null, null] as const;

/** Picks the utm columns of purchases at ascending instants. */
function createUtmPicker(campaigns: readonly Campaign[], random: RandomSource) {
  const mailings = campaigns
    .filter(({ sent_at }) => sent_at !== null)
    .sort((left, right) => Number(left.sent_at) - Number(right.sent_at))
    .map(({ name, sent_at, channel = 'email' }) => ({
      sentAt: Number(sent_at),
      origin: ['crm', channel as string, slugOf(name as string)] as const,
    }));
  let sent = 0;

  return (at: number) => {
    while ((mailings[sent]?.sentAt ?? Number.POSITIVE_INFINITY) <= at) sent++;
    let [, source, medium, campaign] = sources[pickSource(random)] as (typeof sources)[number];
    const mailing = random.chance(mailingProbability) ? mailings[sent - 1] : undefined;
    if (mailing !== undefined) [source, medium, campaign] = mailing.origin;
    return {
      utm_source: source,
      utm_medium: medium,
      utm_campaign: campaign,
      utm_content: campaign && random.pick(contents),
      utm_term: medium === 'cpc' ? random.pick(terms) : null,
    };
  };
}

/** `status`, `payment_status` and `shipping_status`. */
const states = {
  pending: ['open', 'pending', 'unpacked'],
  authorized: ['open', 'authorized', 'unpacked'],
  paid: ['open', 'paid', 'unpacked'],
  packed: ['open', 'paid', 'unshipped'],
  shipped: ['open', 'paid', 'shipped'],
  delivered: ['closed', 'paid', 'shipped'],
  abandoned: ['open', 'abandoned', 'unpacked'],
  expired: ['cancelled', 'abandoned', 'unpacked'],
  voided: ['cancelled', 'voided', 'unpacked'],
  refunded: ['cancelled', 'refunded', 'unpacked'],
  returned: ['closed', 'refunded', 'shipped'],
} as const;
type State = keyof typeof states;

const delivery = { packed: 25, shipped: 38, delivered: 190 };
/** Percent of the purchases, and what follows `pending`: the mean hours before each state. */
const lifecycles: readonly (readonly [number, Partial<Record<State, number>>])[] = [
  [37, { paid: 0.2, ...delivery }],
  [31, { authorized: 0.03, paid: 18, ...delivery }],
  [10, { paid: 44, ...delivery }],
  [3, { paid: 0.2, ...delivery, returned: 310 }],
  [3, { authorized: 0.03, paid: 18, refunded: 38 }],
  [7, { abandoned: 25, expired: 180 }],
  [4, { abandoned: 25 }],
  [5, { voided: 36 }],
];
const lifecycleSteps = lifecycles.map(([, hours]) => Object.entries(hours) as [State, number][]);
const pickLifecycle = createWeightedPicker(lifecycles.map(([percent]) => percent));
const pickPlatform = createWeightedPicker([68, 14, 8, 5, 3, 2]);

/** A `shipping` coupon waives the shipping cost. */
const freeShipping = { id: '7000', code: 'FRETEGRÁTIS', value: 100, type: 'shipping' };
const codeWords = ['BEMVINDO', 'VOLTEI', 'VIP', 'BLACK', 'NATAL', 'MAES', 'PIX', 'AMIGO'] as const;

/** One at each of the ascending instants. A second call draws the same ones. */
export function* purchaseRows(
  shop: Shop,
  customers: Customers,
  instants: Float64Array,
  campaigns: readonly Campaign[],
  firstCustomerId: number,
) {
  const random = shop.random('purchases');
  const pickBuyer = createBuyerPicker(customers, instants.length, random);
  const drawAmounts = createAmountSource(shop, random);
  const pickUtm = createUtmPicker(campaigns, random);
  for (const [index, at] of instants.entries()) {
    const { state, updatedAt } = drawState(at, shop.calendar.until, random);
    const [status, payment_status, shipping_status] = states[state];
    const platform = shop.platforms[pickPlatform(random)] as string;
    const amounts = drawAmounts();
    const optional = {
      order_id_on_integration_platform: String(4_500_000_000_000 + index * 90_017),
      order_number: platform === 'popup' ? null : `#${1001 + index}`,
      platform,
      status,
      payment_status,
      shipping_status,
      ...amounts,
      ...pickUtm(at),
    };
    const hasOnlyRequiredValues = index % 500 === 249;
    yield {
      customer_id: firstCustomerId + pickBuyer(at),
      purchase_value_in_cents: amounts.total_amount_in_cents,
      created_at: new Date(at),
      updated_at: new Date(updatedAt),
      ...(hasOnlyRequiredValues ? withoutValues(optional) : optional),
    };
  }
}

const withoutValues = <Column extends string>(row: Record<Column, unknown>) =>
  Object.fromEntries(Object.keys(row).map((column) => [column, null])) as Record<Column, null>;

/** The last state before `until`: so only recent purchases are pending or in transit. */
function drawState(createdAt: number, until: number, random: RandomSource) {
  let state: State = 'pending';
  let updatedAt = createdAt;
  for (const [next, meanHours] of lifecycleSteps[pickLifecycle(random)] ?? []) {
    const at = updatedAt + Math.floor(random.between(0, 2 * meanHours) * hourMs);
    if (at > until) break;
    state = next;
    updatedAt = at;
  }
  return { state, updatedAt };
}

function createAmountSource(shop: Shop, random: RandomSource) {
  const couponSets = drawCouponSets(random);
  const pickCoupons = createWeightedPicker(zipfWeights(couponSets.length, 1.1));
  const pickProduct = createWeightedPicker(zipfWeights(shop.pricesInCents.length, 0.8));
  return () => {
    const isDollar = shop.hasDollars && random.chance(0.015);
    let basket = 0;
    do basket += shop.pricesInCents[pickProduct(random)] as number;
    while (random.chance(0.4));
    const subtotal = isDollar ? Math.round(basket / 5) : basket;
    const isFree = basket >= shop.freeShippingFromInCents || random.chance(0.08);
    const shipping = isFree ? 0 : 990 + random.integer(2000);
    const coupons = random.chance(0.13) ? (couponSets[pickCoupons(random)] ?? null) : null;
    let discount = 0;
    for (const { type, value } of coupons ?? []) {
      if (type === 'shipping') discount += shipping;
      else if (type === 'absolute') discount += Math.min(subtotal, value * 100);
      else discount += Math.round((subtotal * value) / 100);
    }
    return {
      currency: isDollar ? 'USD' : 'BRL',
      subtotal_amount_in_cents: subtotal,
      total_amount_in_cents: subtotal + shipping - discount,
      discount_in_cents: discount,
      shipping_cost_customer_in_cents: shipping,
      coupons,
    };
  };
}

/** What a purchase may carry, most used first. */
function drawCouponSets(random: RandomSource) {
  const coupons = [10, 20, 5].flatMap((value) =>
    codeWords.map((word, index) => {
      const type = random.chance(0.7) ? 'percentage' : 'absolute';
      return { id: String(100 * value + index), code: `${word}${value}`, value, type };
    }),
  );
  return [...coupons, freeShipping].map((coupon, index) =>
    index % 8 === 3 ? [coupon, freeShipping] : [coupon],
  );
}

/**
 * The customers with their totals, as `refresh_customer_totals` computes them. Without a paid purchase,
 * the instants are NaN.
 */
export function totalPaid(
  { createdAt }: Customers,
  purchases: ReturnType<typeof purchaseRows>,
): CustomerTotals {
  const { length } = createdAt;
  const spentInCents = new Float64Array(length);
  const orders = new Float64Array(length);
  const firstAt = new Float64Array(length).fill(Number.NaN);
  const lastAt = new Float64Array(length).fill(Number.NaN);
  for (const purchase of purchases) {
    if (purchase.payment_status !== 'paid') continue;
    const index = purchase.customer_id;
    const at = purchase.created_at.getTime();
    if (orders[index] === 0) firstAt[index] = at;
    lastAt[index] = at;
    orders[index] = (orders[index] as number) + 1;
    // Totals are in the most frequent currency.
    if (purchase.currency === 'USD') continue;
    spentInCents[index] = (spentInCents[index] as number) + purchase.purchase_value_in_cents;
  }
  return { createdAt, spentInCents, orders, firstAt, lastAt };
}
