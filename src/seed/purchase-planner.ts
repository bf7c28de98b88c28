import type { Coupon } from './coupons.ts';
import type { CustomerPlan } from './customer-plan.ts';
import { drawInstants } from './demand-calendar.ts';
import type { OrganizationProfile } from './organization-profile.ts';
import { createAmountSource } from './purchase-amounts.ts';
import { createPurchasePlan, type PurchasePlan } from './purchase-plan.ts';
import { drawPurchaseState } from './purchase-states.ts';
import { firstAbove } from './random-source.ts';

/** How likely a new customer's first act is to buy, as far as there are purchases enough. */
const BUYS_ON_JOINING = 0.65;

export function planPurchases(
  profile: OrganizationProfile,
  customers: CustomerPlan,
  couponSets: readonly (readonly Coupon[])[],
  count: number,
): PurchasePlan {
  const instants = drawInstants(profile.calendar, count, profile.random('purchase instants'));
  const plan = createPurchasePlan(instants);
  assignCustomers(profile, customers, plan);
  const amounts = createAmountSource(profile, couponSets);
  const states = profile.random('purchase states');
  for (let index = 0; index < count; index++) {
    amounts(plan, index);
    drawPurchaseState(plan, index, profile.calendar.until, states);
  }
  return plan;
}

/**
 * Only customers that have joined by then can buy; who has more appetite buys
 * more often. The square root favours those that joined lately: old ones drift away.
 */
function assignCustomers(
  profile: OrganizationProfile,
  customers: CustomerPlan,
  plan: PurchasePlan,
): void {
  const random = profile.random('purchase customers');
  const { appetiteSums, createdAt } = customers;
  const newcomerProbability = BUYS_ON_JOINING * Math.min(1, customers.count / plan.count);
  let joined = 1;
  for (let index = 0; index < plan.count; index++) {
    const at = plan.createdAt[index] as number;
    while (joined < customers.count && (createdAt[joined] as number) <= at) joined++;
    const appetites = appetiteSums[joined - 1] as number;
    const newcomerAppetite = appetites - (joined > 1 ? (appetiteSums[joined - 2] as number) : 0);
    plan.customer[index] =
      newcomerAppetite > 0 && random.chance(newcomerProbability)
        ? joined - 1
        : firstAbove(appetiteSums, Math.sqrt(random.fraction()) * appetites, joined);
  }
}
