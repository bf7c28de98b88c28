import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { empty, raw, type Sql } from 'sql-template-tag';
import { queryRows } from '../../duckdb/connection.ts';
import { placeholderCustomer } from '../../purchase-store/layout.ts';
import { creationQuarter } from '../../purchase-store/quarter-hours.ts';
import { groupedPurchases, type StoreCatalogs } from '../../purchase-store/relations.ts';
import type { PeriodRow } from '../time-series.ts';
import { openCustomers } from './customers.ts';
import type { FirstInPeriod } from './periods.ts';

/** The matching purchases of periods, and the number of their customers in the base. */
export type CountedPeriods = {
  readonly rows: readonly Omit<PeriodRow, 'series'>[];
  readonly customersInBase: bigint;
};

/** Reads the base once: a customer counts in the period of a purchase that is the first one there. */
export async function readPeriods(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  matching: Sql,
  { period, isFirst, isFirstInPeriod, longest }: FirstInPeriod,
): Promise<CountedPeriods> {
  const firsts = { in_period: isFirstInPeriod, in_all: isFirst };
  const open = openCustomers(catalogs, 'any', matching, sql`${period} as period, `);
  const read = await queryRows(
    connection,
    sql`
      select * from ${groupedPurchases(catalogs, matching, { period }, firsts)}
      cross join (select min(first), max(last) from ${open})`,
  );
  const [, , , , , first, last] = (read[0] ?? []) as (number | null)[];
  const added =
    first == null || last == null
      ? new Map<number, bigint>()
      : await countOpen(
          connection,
          catalogs,
          open,
          sql`${matching}
          and ${raw(creationQuarter.name)} between ${first - longest}::integer and ${last + longest}::integer`,
          period,
        );
  const all = read.map(([period, purchaseCount, revenueInCents, customers]) => ({
    period: period as number,
    purchaseCount: purchaseCount as bigint,
    revenueInCents: revenueInCents as bigint,
    customerCount: (customers as bigint) + (added.get(period as number) ?? 0n),
  }));
  const customersInBase = read.reduce((sum, row) => sum + (row[4] as bigint), 0n);
  return { rows: all.filter(({ purchaseCount }) => purchaseCount > 0n), customersInBase };
}

/** What open customers add to the number of customers, by period. `matching` includes all of their periods. */
async function countOpen(
  connection: DuckDBConnection,
  { base }: StoreCatalogs,
  open: Sql,
  matching: Sql,
  period: Sql,
): Promise<ReadonlyMap<number, bigint>> {
  const rows = await queryRows(
    connection,
    sql`
      with open as materialized ${open}
      select period, sum(customers)::bigint from (
        select period, 1 as customers from open where change > 0
        union all
        select period, -1 from (
          select open.period, customer, change
          from (select ${period} as period, customer_key from ${raw(base)}.purchase where ${matching}) as purchase
          join open on customer = customer_key and open.period = purchase.period
          group by all having change > 0 or count(*) = -change
        )
      ) group by period`,
  );
  return new Map(rows as unknown as [number, bigint][]);
}

/** A row with the key of its series. */
type KeyedRow = Omit<PeriodRow, 'series'> & { readonly series: number };

/** Groups the customers of each series and period. */
export async function readGroupedPeriods(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  condition: Sql,
  keys: { readonly series: Sql; readonly period: Sql },
): Promise<KeyedRow[]> {
  const { base, delta } = catalogs;
  const columns = sql`${keys.series} as series, ${keys.period} as period, customer_key`;
  const inBase = (more: Sql) =>
    sql`select ${columns} from ${raw(base)}.purchase where ${condition} ${more}`;
  // Customers that are counted without a matching purchase: the delta supersedes all of their
  // purchases of the period, and adds none (see `openCustomers`).
  const superseded = sql`
    with candidates as (
      select ${columns}, count(*) as purchases
      from ${raw(delta)}.change where sign <> 0 and ${condition}
      group by all having max(sign) < 0
    ), found as (
      select series, period, customer_key, count(*) as purchases
      from (${inBase(sql`and customer_key in (select customer_key from candidates)`)})
      group by all
    )
    select series, period, count(*) as customers
    from candidates join found using (series, period, customer_key, purchases)
    group by all`;
  // The row of sign 0 lets DuckDB group dense keys by direct addressing, and is no customer.
  const customers = sql`
    select series, period, count(*) as customers
    from (
      select series, period, customer_key
      from (
        ${inBase(empty)}
        union all
        select ${columns} from ${raw(delta)}.change where (sign > 0 and ${condition}) or sign = 0
      )
      group by all
    )
    where customer_key <> ${raw(String(placeholderCustomer))}
    group by all`;
  const rows = await queryRows(
    connection,
    sql`
      select series, period, purchase_count, revenue,
        counted.customers - coalesce(superseded.customers, 0)
      from ${groupedPurchases(catalogs, condition, keys)}
      join (${customers}) as counted using (series, period)
      left join (${superseded}) as superseded using (series, period)`,
  );
  return rows.map(([series, period, purchaseCount, revenueInCents, customerCount]) => ({
    series: series as number,
    period: period as number,
    purchaseCount: purchaseCount as bigint,
    revenueInCents: revenueInCents as bigint,
    customerCount: customerCount as bigint,
  }));
}
