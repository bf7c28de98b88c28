import { NO_INSTANT } from './instants.ts';
import { type PurchasePlan, totalInCents } from './purchase-plan.ts';
import { isPaid } from './purchase-states.ts';

/** Of the paid purchases only, one array element per customer. */
export type CustomerTotals = {
  spentInCents: Float64Array;
  orders: Int32Array;
  firstPurchaseAt: Float64Array;
  lastPurchaseAt: Float64Array;
};

export function totalPaidPurchases(plan: PurchasePlan, customerCount: number): CustomerTotals {
  const totals: CustomerTotals = {
    spentInCents: new Float64Array(customerCount),
    orders: new Int32Array(customerCount),
    firstPurchaseAt: new Float64Array(customerCount).fill(NO_INSTANT),
    lastPurchaseAt: new Float64Array(customerCount).fill(NO_INSTANT),
  };
  for (let index = 0; index < plan.count; index++) {
    if (!isPaid(plan.state[index] as number)) continue;
    const customer = plan.customer[index] as number;
    const orders = totals.orders[customer] as number;
    totals.orders[customer] = orders + 1;
    totals.spentInCents[customer] =
      (totals.spentInCents[customer] as number) + totalInCents(plan, index);
    // Purchases are planned in the order of their creation.
    if (orders === 0) totals.firstPurchaseAt[customer] = plan.createdAt[index] as number;
    totals.lastPurchaseAt[customer] = plan.createdAt[index] as number;
  }
  return totals;
}
