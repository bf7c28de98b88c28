import { minorDigits } from '../../domain/currency.ts';
import { decimalOf } from '../../domain/decimal.ts';
import type { Connection, Database } from '../connection/pool.ts';

/** Rows that the service accepts, of an organization and a currency. */
export type RowTotal = {
  readonly organization: string;
  readonly currency: string | null;
  readonly rows: number;
  /** The sum of `purchase_value_in_cents`. Null for customers. */
  readonly cents: string | null;
};

/** The mapped rows of an organization. */
export type OrganizationTotals = {
  readonly organization: string;
  readonly name: string;
  readonly customers: number;
  readonly purchases: number;
  readonly currencies: readonly {
    /** Null for purchases without one. */
    readonly currency: string | null;
    readonly purchases: number;
    /** Decimal text in units of the currency. */
    readonly value: string;
  }[];
};

/** Totals by organization, of rows of both views. */
export async function totalsOf(
  connection: Connection | Database,
  customers: readonly RowTotal[],
  purchases: readonly RowTotal[],
): Promise<OrganizationTotals[]> {
  const organizations = [...customers, ...purchases].map(({ organization }) => organization);
  const { rows } = await connection.query<{ organization: string; name: string }>(
    `select id::text as organization, name from organizations
     where id = any ($1::bigint[]) order by id`,
    [organizations],
  );
  const count = (totals: readonly RowTotal[]) => totals.reduce((sum, total) => sum + total.rows, 0);
  return rows.map(({ organization, name }) => {
    const own = purchases.filter((total) => total.organization === organization);
    return {
      organization,
      name,
      customers: count(customers.filter((total) => total.organization === organization)),
      purchases: count(own),
      currencies: own.map(({ currency, rows: purchasesOf, cents }) => ({
        currency,
        purchases: purchasesOf,
        value: decimalOf(cents ?? '0', minorDigits(currency)),
      })),
    };
  });
}

/** The same totals of the rows that a mapping has stored. */
export async function readStoredTotals(
  connection: Connection | Database,
): Promise<OrganizationTotals[]> {
  const { rows: customers } = await connection.query<RowTotal>(
    `select organization_id::text as organization, null as currency, count(*)::float8 as rows, null as cents
     from customers join mapped_customer_numbers using (id, organization_id) where is_stored group by 1`,
  );
  const { rows: purchases } = await connection.query<RowTotal>(
    `select organization_id::text as organization, currency, count(*)::float8 as rows,
       sum(purchase_value_in_cents)::text as cents
     from purchases join mapped_purchase_numbers using (id, organization_id)
     where is_stored
     group by 1, 2 order by 1, 2`,
  );
  return totalsOf(connection, customers, purchases);
}
