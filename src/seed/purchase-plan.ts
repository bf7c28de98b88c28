/**
 * What must be known of every purchase before its customer's row is written,
 * one array element each, ordered by creation: 36 bytes a purchase.
 */
export type PurchasePlan = {
  count: number;
  createdAt: Float64Array;
  updatedAt: Float64Array;
  /** Index in the CustomerPlan. */
  customer: Int32Array;
  /** Index in PURCHASE_STATES. */
  state: Uint8Array;
  isDollar: Uint8Array;
  subtotalInCents: Int32Array;
  shippingInCents: Int32Array;
  discountInCents: Int32Array;
  /** Index in the organization's coupon sets, -1 for none. */
  couponSet: Int16Array;
};

/** `createdAt` ascends; everything else is still to be filled in. */
export function createPurchasePlan(createdAt: Float64Array): PurchasePlan {
  const count = createdAt.length;
  return {
    count,
    createdAt,
    updatedAt: new Float64Array(count),
    customer: new Int32Array(count),
    state: new Uint8Array(count),
    isDollar: new Uint8Array(count),
    subtotalInCents: new Int32Array(count),
    shippingInCents: new Int32Array(count),
    discountInCents: new Int32Array(count),
    couponSet: new Int16Array(count),
  };
}

export function totalInCents(plan: PurchasePlan, index: number): number {
  return (
    (plan.subtotalInCents[index] as number) +
    (plan.shippingInCents[index] as number) -
    (plan.discountInCents[index] as number)
  );
}
