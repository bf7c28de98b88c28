import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw, type Sql } from 'sql-template-tag';
import { queryRows } from '../../../duckdb/connection.ts';
import { emptyBase } from '../../../purchase-store/delta/delta.ts';
import {
  columnsOf,
  type GroupKeys,
  type StoreCatalogs,
} from '../../../purchase-store/format/relations.ts';

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
 * Selects the open customers of each group: `keys`, the customer's key, and how many purchases the delta
 * supersedes. All rows of the delta that match are of sign -1: the customer counts unless these are all
 * matching rows of the base.
 */
function openCustomers({ delta }: StoreCatalogs, matching: Sql, keys: GroupKeys): Sql {
  // By the key itself, DuckDB would group by direct addressing, in a table of all customers.
  return sql`(
    select ${columnsOf(keys).definitions} xor(customer_key, 0) as customer, count(*) as superseded
    from ${raw(delta)}.change
    where sign <> 0 and ${matching}
    group by all having max(sign) < 0
  )`;
}

/** Selects the number of open customers. Without a base, there are none. */
export const openCustomerCount = (catalogs: StoreCatalogs, matching: Sql = sql`true`): Sql =>
  catalogs.base === emptyBase
    ? sql`(select 0::bigint) as open_customers`
    : sql`(select count(*) from ${openCustomers(catalogs, matching, {})}) as open_customers`;

/**
 * Selects what open customers add to the number of customers: one row for each group, or one row
 * without keys.
 */
export function openCorrections(catalogs: StoreCatalogs, matching: Sql, keys: GroupKeys): Sql {
  const { names, definitions } = columnsOf(keys);
  const isSameGroup = Object.keys(keys).map((name) => ` and open.${name} = purchase.${name}`);
  const ofOpen = Object.keys(keys).map((name) => `open.${name}, `);
  return sql`(
    with open as materialized ${openCustomers(catalogs, matching, keys)}
    select ${names} -count(*) as customers
    from (
      select ${raw(ofOpen.join(''))} customer, superseded
      from (
        select ${definitions} customer_key from ${raw(catalogs.base)}.purchase where ${matching}
      ) as purchase
      join open on customer = customer_key ${raw(isSameGroup.join(''))}
      group by all having count(*) = superseded
    )
    ${raw(ofOpen.length === 0 ? '' : 'group by all')}
  )`;
}

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
    sql`select customers from ${openCorrections(catalogs, matching, {})}`,
  );
  return row?.[0] as bigint;
}
