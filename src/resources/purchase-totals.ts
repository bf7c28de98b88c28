import { z } from 'zod';
import {
  averageTicket,
  type PurchaseSums,
  type PurchaseTotals,
} from '../domain/purchase-engine.ts';
import { count, integer, sum } from '../http/response/wire.ts';

/** The fields of the totals (section 2.6). */
export const totalsSchema = {
  purchase_count: count(),
  customer_count: count(),
  revenue_in_cents: sum(),
  average_ticket_in_cents: integer(),
  currency: z.string().nullable(),
  mixed_currencies: z.boolean(),
};

export const totals = (of: PurchaseTotals) => ({
  ...amounts(of),
  customer_count: of.customerCount,
  currency: of.currency,
  mixed_currencies: of.mixedCurrencies,
});

export const amounts = ({ purchaseCount, revenueInCents }: PurchaseSums) => ({
  purchase_count: purchaseCount,
  revenue_in_cents: revenueInCents,
  average_ticket_in_cents: averageTicket(revenueInCents, purchaseCount),
});
