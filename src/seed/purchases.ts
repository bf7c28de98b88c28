import { COPY_NULL, copyText } from './copy-text.ts';
import type { Coupon } from './coupons.ts';
import { instantText } from './instants.ts';
import type { OrderNumberSource } from './order-numbers.ts';
import { type PurchasePlan, totalInCents } from './purchase-plan.ts';
import { isBare, PURCHASE_STATES } from './purchase-states.ts';
import type { TrafficSource } from './traffic.ts';

export const COPY_PURCHASES =
  'copy purchases (id, organization_id, customer_id, purchase_value_in_cents, created_at, updated_at, order_id_on_integration_platform, order_number, platform, status, payment_status, shipping_status, currency, subtotal_amount_in_cents, total_amount_in_cents, discount_in_cents, shipping_cost_customer_in_cents, coupons, utm_source, utm_medium, utm_campaign, utm_content, utm_term) from stdin';

export type PurchaseWriting = {
  plan: PurchasePlan;
  couponSets: readonly (readonly Coupon[])[];
  drawOrderNumber: OrderNumberSource;
  drawTraffic: TrafficSource;
  organizationId: string;
  firstId: number;
  firstCustomerId: number;
};

/** Escaped once here instead of once per purchase. */
const STATE_COLUMNS = PURCHASE_STATES.map(
  ({ status, payment, shipping }) =>
    `${status ?? COPY_NULL}\t${payment ?? COPY_NULL}\t${shipping ?? COPY_NULL}`,
);

/** From order_id_on_integration_platform on. */
const BARE_COLUMNS = Array(17).fill(COPY_NULL).join('\t');

/** Lines of the purchases from `from` up to, but not including, `to`; call it in this order. */
export function* purchaseLines(
  writing: PurchaseWriting,
  from: number,
  to: number,
): Generator<string> {
  const { plan, drawOrderNumber, drawTraffic, organizationId, firstId, firstCustomerId } = writing;
  const couponColumns = writing.couponSets.map((coupons) => copyText(JSON.stringify(coupons)));
  for (let index = from; index < to; index++) {
    const createdAt = plan.createdAt[index] as number;
    const total = totalInCents(plan, index);
    const customerId = firstCustomerId + (plan.customer[index] as number);
    const required = `${firstId + index}\t${organizationId}\t${customerId}\t${total}\t${instantText(createdAt)}\t${instantText(plan.updatedAt[index] as number)}`;
    if (isBare(plan.state[index] as number)) {
      yield `${required}\t${BARE_COLUMNS}\n`;
      continue;
    }
    const state = STATE_COLUMNS[plan.state[index] as number];
    const currency = plan.isDollar[index] === 1 ? 'USD' : 'BRL';
    const coupons = couponColumns[plan.couponSet[index] as number] ?? COPY_NULL;
    yield `${required}\t${drawOrderNumber()}\t${state}\t${currency}\t${plan.subtotalInCents[index]}\t${total}\t${plan.discountInCents[index]}\t${plan.shippingInCents[index]}\t${coupons}\t${drawTraffic(createdAt)}\n`;
  }
}
