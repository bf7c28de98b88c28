import { PLACE_WEIGHTS, PLACES } from './brazilian-places.ts';
import { drawInstants } from './demand-calendar.ts';
import { MICROS_PER_SECOND } from './instants.ts';
import type { OrganizationProfile } from './organization-profile.ts';
import { createWeightedPicker, type RandomSource } from './random-source.ts';

/** What other resources need of the customers, one array element each, oldest customer first. */
export type CustomerPlan = {
  count: number;
  /** Ascending. */
  createdAt: Float64Array;
  /** Sums of how much each one tends to buy; a customer that adds nothing never buys. */
  appetiteSums: Float64Array;
  /** Index in PLACES. */
  place: Uint8Array;
  /** Bits of CONTACT. */
  contact: Uint8Array;
};

export const CONTACT = {
  hasEmail: 1,
  hasPhone: 2,
  isSubscribed: 4,
  isSubscribedToEmail: 8,
} as const;

/** Customers that the shop brought along when it started. */
const IMPORTED_SHARE = 0.06;
const NEVER_BUYS_PROBABILITY = 0.13;
/** Exponent of the Pareto law of appetites: below 1, so that many buy once and a few very much. */
const APPETITE_EXPONENT = 0.9;
/** Resellers, not robots: the hungriest customer over the least hungry one. */
const MAXIMUM_APPETITE = 800;

export function planCustomers(profile: OrganizationProfile, count: number): CustomerPlan {
  const random = profile.random('customer plan');
  const pickPlace = createWeightedPicker(PLACE_WEIGHTS);
  const plan: CustomerPlan = {
    count,
    createdAt: drawJoins(profile, count, random),
    appetiteSums: new Float64Array(count),
    place: new Uint8Array(count),
    contact: new Uint8Array(count),
  };
  let appetites = 0;
  for (let index = 0; index < count; index++) {
    // The first customer buys, so that a shop's first purchase has a buyer.
    if (index === 0 || !random.chance(NEVER_BUYS_PROBABILITY)) {
      const appetite = (1 - random.fraction()) ** (-1 / APPETITE_EXPONENT);
      appetites += index === 0 ? 1 : Math.min(MAXIMUM_APPETITE, appetite);
    }
    plan.appetiteSums[index] = appetites;
    plan.place[index] = pickPlace(random);
    plan.contact[index] = drawContact(random);
  }
  return plan;
}

export function hasContact(plan: CustomerPlan, index: number, bit: number): boolean {
  return ((plan.contact[index] as number) & bit) !== 0;
}

function drawJoins(profile: OrganizationProfile, count: number, random: RandomSource) {
  const { start, until } = profile.calendar;
  const imported = count === 0 ? 0 : Math.max(1, Math.floor(count * IMPORTED_SHARE));
  const joins = new Float64Array(count);
  const importStep = Math.min(0.02 * MICROS_PER_SECOND, (until - start) / (imported * 100));
  for (let index = 0; index < imported; index++) {
    joins[index] = start + Math.floor(index * importStep);
  }
  joins.set(drawInstants(profile.calendar, count - imported, random), imported);
  return joins.sort();
}

function drawContact(random: RandomSource): number {
  const hasEmail = random.chance(0.93);
  const hasPhone = random.chance(0.86);
  const isSubscribed = random.chance(0.64);
  const isSubscribedToEmail = isSubscribed && hasEmail && random.chance(0.87);
  return (
    (hasEmail ? CONTACT.hasEmail : 0) |
    (hasPhone ? CONTACT.hasPhone : 0) |
    (isSubscribed ? CONTACT.isSubscribed : 0) |
    (isSubscribedToEmail ? CONTACT.isSubscribedToEmail : 0)
  );
}

/** How many customers with that contact had joined by then; 0 for no instant. */
export function countContacts(plan: CustomerPlan, bit: number, at: number): number {
  let count = 0;
  for (let index = 0; index < plan.count && (plan.createdAt[index] as number) <= at; index++) {
    if (hasContact(plan, index, bit)) count++;
  }
  return count;
}

/** For segments by region. */
export function regionOf(plan: CustomerPlan, index: number): string | undefined {
  return PLACES[plan.place[index] as number]?.region;
}
