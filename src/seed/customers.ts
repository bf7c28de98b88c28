import { drawInstants } from './calendar.ts';
import type { Row } from './copy-rows.ts';
import { drawAttributes } from './definitions.ts';
import { createWeightedPicker, firstAbove, type RandomSource } from './random-source.ts';
import { type Shop, slugOf } from './shop.ts';

/** `.example` is reserved: these domains receive no mail. */
const emailDomains = ['correio.example', 'caixa.example', 'carta.example', 'empresa.example'];
const areaCodes = ['11', '11', '11', '21', '21', '31', '41', '48', '51', '61', '71', '81', '92'];
const complements = ['Apto 31', 'Casa 2', 'Fundos', 'Bloco B \\ apto 12', 'Portão "azul"'];

export type Customers = ReturnType<typeof drawCustomers>;

/** Oldest first. */
export function drawCustomers(shop: Shop, count: number) {
  const random = shop.random('customers');
  const createdAt = drawInstants(shop.calendar, count, random);
  // Imported when the shop started, so that its first purchase has a buyer.
  createdAt.fill(shop.calendar.start, 0, Math.ceil(count * 0.06));
  /** Of weights: how much each one buys. A customer that adds nothing never buys. */
  const demandSums = new Float64Array(count);
  let sum = 0;
  for (let index = 0; index < count; index++) {
    // A Pareto distribution: many buy once, few buy very often.
    const demand = Math.min(800, (1 - random.fraction()) ** (-1 / 0.9));
    if (index === 0 || !random.chance(0.13)) sum += demand;
    demandSums[index] = sum;
  }
  return { createdAt, demandSums };
}

/** Of each customer's paid purchases; instants are milliseconds, NaN without a purchase. */
export type CustomerTotals = Pick<Customers, 'createdAt'> & {
  readonly spentInCents: Float64Array;
  readonly orders: Float64Array;
  readonly firstAt: Float64Array;
  readonly lastAt: Float64Array;
};

/** Picks who buys at each of `purchases` ascending instants, among the customers of that time. */
export function createBuyerPicker(customers: Customers, purchases: number, random: RandomSource) {
  const { createdAt, demandSums } = customers;
  const newcomerProbability = 0.65 * Math.min(1, createdAt.length / purchases);
  let joined = 1;
  return (at: number): number => {
    while ((createdAt[joined] ?? Number.POSITIVE_INFINITY) <= at) joined++;
    const demand = demandSums[joined - 1] as number;
    const isNewcomerBuying = demand > (demandSums[joined - 2] ?? 0);
    if (isNewcomerBuying && random.chance(newcomerProbability)) return joined - 1;
    // The square root prefers customers that joined lately.
    return firstAbove(demandSums, Math.sqrt(random.fraction()) * demand, joined);
  };
}

export function* customerRows(shop: Shop, customers: CustomerTotals): Generator<Row> {
  const random = shop.random('customer rows');
  const sources = [...shop.platforms.slice(0, 3), 'popup', 'importação', 'cadastro manual', null];
  const pickSource = createWeightedPicker([50, 12, 6, 14, 6, 3, 9]);
  for (const [index, createdAt] of customers.createdAt.entries()) {
    const firstName = random.pick(shop.firstNames);
    const surname = random.pick(shop.surnames);
    const middleName = random.chance(0.3) ? ` ${random.pick(shop.surnames)}` : '';
    const number = random.chance(0.04) ? '' : index;
    const email = `${slugOf(`${firstName}.${surname}${number}`)}@${random.pick(emailDomains)}`;
    // A whole number could be somebody's.
    const maskedCpf = `***.${digits(3, random)}.${digits(3, random)}-**`;
    const hasEmail = random.chance(0.93);
    const isSubscribed = random.chance(0.64);
    const changedAt = Math.max(createdAt, customers.lastAt[index] || 0);
    const unchangedMs = shop.calendar.until - changedAt;
    yield {
      created_at: new Date(createdAt),
      updated_at: new Date(changedAt + Math.floor(random.fraction() ** 4 * unchangedMs)),
      name: random.chance(0.02) ? null : `${firstName}${middleName} ${surname}`,
      email: hasEmail ? email : null,
      phone: random.chance(0.14) ? null : drawPhone(random),
      source: sources[pickSource(random)] ?? null,
      is_subscribed: isSubscribed,
      is_subscribed_to_email: isSubscribed && hasEmail && random.chance(0.87),
      total_spent_in_cents: customers.spentInCents[index] as number,
      total_orders: customers.orders[index] as number,
      first_purchase_date: optionalDate(customers.firstAt[index] as number),
      last_purchase_date: optionalDate(customers.lastAt[index] as number),
      identification: random.chance(0.4) ? null : maskedCpf,
      default_address: random.chance(0.18) ? null : drawAddress(shop, index, random),
      attributes: random.chance(0.35) ? null : drawAttributes(random),
    };
  }
}

/** Brazil assigns no mobile numbers that start with 90. Some phones lack the country code. */
function drawPhone(random: RandomSource): string {
  const countryCode = random.chance(0.1) ? '' : '+55';
  return `${countryCode}${random.pick(areaCodes)}90${digits(7, random)}`;
}

function drawAddress(shop: Shop, index: number, random: RandomSource): object {
  return {
    id: String(700_000 + index),
    number: String(1 + random.integer(2000)),
    ...random.pick(shop.addresses),
    ...(random.chance(0.3) ? { complement: random.pick(complements) } : {}),
  };
}

const optionalDate = (at: number): Date | null => (Number.isNaN(at) ? null : new Date(at));

const digits = (length: number, random: RandomSource): string =>
  String(random.integer(10 ** length)).padStart(length, '0');
