import { describe, expect } from 'vitest';
import { test } from '../support/fixtures.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';

const it = test
  /** Adds paid purchases of one customer each, and returns their totals after a call of the function. */
  .extend(
    'totalsAfter',
    ({ database: { pool } }) =>
      async (purchases: readonly Paid[], options = '') => {
        const organization_id = await addOrganization(pool);
        const customers: Record<string, bigint> = {};
        for (const { customer, currency, cents, payment_status = 'paid' } of purchases) {
          const customer_id = customers[customer] ?? (await addCustomer(pool, organization_id));
          customers[customer] = customer_id;
          const values = { customer_id, currency, purchase_value_in_cents: cents, payment_status };
          await addPurchase(pool, organization_id, values);
        }
        await pool.query(`select refresh_customer_totals($1${options})`, [organization_id]);
        const { rows } = await pool.query<{ id: bigint; spent: bigint; orders: bigint }>(
          `select id, total_spent_in_cents as spent, total_orders as orders
           from customers where organization_id = $1`,
          [organization_id],
        );
        return Object.fromEntries(
          Object.entries(customers).map(([name, id]) => {
            const row = rows.find((each) => each.id === id);
            return [name, [row?.spent, row?.orders]];
          }),
        );
      },
  );

type Paid = {
  readonly customer: string;
  readonly currency: string | null;
  readonly cents: number;
  readonly payment_status?: string;
};

const mixed: readonly Paid[] = [
  { customer: 'ana', currency: 'BRL', cents: 1 },
  { customer: 'ana', currency: 'USD', cents: 10 },
  { customer: 'ana', currency: null, cents: 100 },
  { customer: 'bia', currency: 'USD', cents: 1_000 },
  // It counts for the frequency alone.
  { customer: 'ana', currency: 'BRL', cents: 10_000, payment_status: 'pending' },
  { customer: 'eva', currency: 'BRL', cents: 100_000, payment_status: 'refunded' },
];

describe('the totals of customers', () => {
  it.for([
    ['the most frequent currency', '', [101n, 0n]],
    ['a currency', `, 'USD'`, [10n, 1_000n]],
    ['the most frequent currency by its name', `, of_currency => 'BRL'`, [101n, 0n]],
    ['a currency that no purchase has', `, 'EUR'`, [0n, 0n]],
    ['all currencies', ', all_currencies => true', [111n, 1_000n]],
  ] as const)('sum paid purchases of %s', async ([, options, [ana, bia]], { totalsAfter }) => {
    expect(await totalsAfter(mixed, options)).toEqual({
      ana: [ana, 3n],
      bia: [bia, 1n],
      eva: [0n, 0n],
    });
  });

  it('sum all paid purchases if none has a currency', async ({ totalsAfter }) => {
    const purchases = mixed.map((purchase) => ({ ...purchase, currency: null }));
    expect(await totalsAfter(purchases)).toMatchObject({ ana: [111n, 3n], bia: [1_000n, 1n] });
  });

  it('sum the first of equally frequent currencies by name', async ({ totalsAfter }) => {
    const purchases = ['USD', 'EUR', 'brl'].map((currency, index) => ({
      customer: 'ana',
      currency,
      cents: 10 ** index,
    }));
    expect(await totalsAfter(purchases)).toEqual({ ana: [10n, 3n] });
  });

  it('are those of the own organization', async ({ totalsAfter, database: { pool } }) => {
    const other = await addOrganization(pool);
    const customer_id = await addCustomer(pool, other);
    for (let count = 0; count < 9; count += 1) {
      await addPurchase(pool, other, { customer_id, currency: 'USD', payment_status: 'paid' });
    }
    expect(await totalsAfter(mixed)).toMatchObject({ ana: [101n, 3n] });
  });
});
