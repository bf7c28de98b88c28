import { z } from 'zod';
import {
  averageTicket,
  type PurchaseSums,
  type PurchaseTotals,
} from '../../domain/purchase-engine.ts';
import type { TableColumn } from '../../http/formats/table.ts';
import { count, integer, sum } from '../../http/response/wire.ts';

/** The fields of totals and of periods. */
export const amountsSchema = {
  purchase_count: count().meta({
    description: 'Matching purchases of every payment status, unless `status` selects one.',
  }),
  customer_count: count().meta({ description: 'Distinct customers of these purchases.' }),
  revenue_in_cents: sum().meta({
    description:
      'The sum of `purchase_value_in_cents`, refunded and pending purchases included unless `status` leaves them out.',
  }),
  average_ticket_in_cents: integer().meta({
    description: 'Revenue by purchase, rounded half away from zero; 0 without purchases.',
  }),
};

/** The fields of the totals (section 2.6). */
export const totalsSchema = {
  ...amountsSchema,
  currency: z.string().nullable().meta({
    description: 'The only currency of these purchases; null if there is none or several.',
  }),
  mixed_currencies: z.boolean().meta({
    description: 'Whether there are several currencies: the sums then have no unit.',
  }),
};

/** The columns of a table with these fields. */
export const amountColumns = (schema: object): TableColumn[] =>
  Object.keys(schema).map((name) => ({ name, kind: 'integer', absent: 'never' }));

/** The columns that say what the amounts of all rows are: sums of several currencies have no unit. */
export const currencyColumns: readonly TableColumn[] = [
  { name: 'currency', kind: 'label', absent: 'null' },
  { name: 'mixed_currencies', kind: 'boolean', absent: 'never' },
];

/** The column with the currency of a row's amounts. */
export const currencyColumnOf = ({ group_by }: { readonly group_by: string | null }): string =>
  group_by === 'currency' ? 'key' : 'currency';

export const currencyOf = ({ currency, mixed_currencies }: CurrencyFields): CurrencyFields => ({
  currency,
  mixed_currencies,
});

type CurrencyFields = { readonly currency: string | null; readonly mixed_currencies: boolean };

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
