import { z } from 'zod';
import {
  averageTicket,
  type PurchaseSums,
  type PurchaseTotals,
} from '../domain/purchase-engine.ts';
import type { TableColumn } from '../http/formats/table.ts';
import { count, integer, sum } from '../http/response/wire.ts';

/** The fields of totals and of periods. */
export const amountsSchema = {
  purchase_count: count(),
  customer_count: count(),
  revenue_in_cents: sum(),
  average_ticket_in_cents: integer(),
};

/** The fields of the totals (section 2.6). */
export const totalsSchema = {
  ...amountsSchema,
  currency: z.string().nullable(),
  mixed_currencies: z.boolean(),
};

/** The columns of a table with these fields. */
export const amountColumns = (schema: object): TableColumn[] =>
  Object.keys(schema).map((name) => ({ name, kind: 'integer', absent: 'never' }));

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
