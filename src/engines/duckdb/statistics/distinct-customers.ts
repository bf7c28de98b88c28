import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw, type Sql } from 'sql-template-tag';
import { queryRows } from '../../../duckdb/connection.ts';
import { emptyBase } from '../../../purchase-store/delta/delta.ts';
import type { StoreCatalogs } from '../../../purchase-store/format/relations.ts';

/** Selects the customers of the matching purchases that the delta adds. */
export const addedCustomers = ({ delta }: StoreCatalogs, matching: Sql = sql`true`): Sql =>
  sql`select customer_key from ${raw(delta)}.change where (sign > 0 and ${matching})`;

/**
 * Selects the number of customers with a matching purchase in the base or in the delta, and of open
 * ones. DuckDB hashes `count(distinct …)` beside other aggregates, but groups dense keys by direct
 * addressing. The row of sign 0, one customer too many, is always read.
 */
export function customersPart(catalogs: StoreCatalogs, matching: Sql): Sql {
  return sql`(
    select count(*) - 1 from (
      select customer_key from (
        select customer_key from ${raw(catalogs.base)}.purchase where ${matching}
        union all
        ${addedCustomers(catalogs, matching)} or sign = 0
      ) group by customer_key
    )
  ) as customers, ${openCustomerCount(catalogs, matching)}`;
}

/**
 * Selects the open customers: the customer's key, and how many purchases the delta supersedes. All rows of
 * the delta that match are of sign -1: the customer counts unless these are all matching rows of the base.
 */
function openCustomers({ delta }: StoreCatalogs, matching: Sql): Sql {
  // By the key itself, DuckDB would group by direct addressing, in a table of all customers.
  return sql`(
    select xor(customer_key, 0) as customer, count(*) as superseded
    from ${raw(delta)}.change
    where sign <> 0 and ${matching}
    group by 1 having max(sign) < 0
  )`;
}

/** Selects the number of open customers. Without a base, there are none. */
export const openCustomerCount = (catalogs: StoreCatalogs, matching: Sql = sql`true`): Sql =>
  catalogs.base === emptyBase
    ? sql`(select 0::bigint) as open_customers`
    : sql`(select count(*) from ${openCustomers(catalogs, matching)}) as open_customers`;

/** What `open` customers add to the number of customers. */
export async function countOpen(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  open: bigint,
  matching: Sql = sql`true`,
): Promise<bigint> {
  if (open === 0n) return 0n;
  const [row] = await queryRows(
    connection,
    sql`
      with open as materialized ${openCustomers(catalogs, matching)}
      select -count(*) from (
        select customer
        from ${raw(catalogs.base)}.purchase join open on customer = customer_key
        where ${matching}
        group by customer, superseded having count(*) = superseded
      )`,
  );
  return row?.[0] as bigint;
}
