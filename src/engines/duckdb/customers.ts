import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw, type Sql } from 'sql-template-tag';
import { queryRows } from '../../duckdb/connection.ts';
import { emptyBase } from '../../purchase-store/delta/delta.ts';
import { creationQuarter } from '../../purchase-store/quarter-hours.ts';
import { columnsOf, type Keys, type StoreCatalogs } from '../../purchase-store/relations.ts';

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
  ) as customers, ${openPart(catalogs, 'superseded', matching)}`;
}

/**
 * Open customers of base and delta: only the base's rows tell whether they count. All rows of the
 * delta that match have one sign. If it is -1, the customer counts unless these are all matching rows
 * of the base. If it is 1, and only the customers of the base have been counted, one counts in
 * addition unless the base has a matching row.
 */
type Openness = 'superseded' | 'any';

/** Selects the open customers of each group: `keys`, the customer's key, and the sum of the signs. */
export function openCustomers(
  { delta }: StoreCatalogs,
  openness: Openness,
  matching: Sql,
  keys: Keys,
): Sql {
  const condition = openness === 'any' ? 'min(sign) = max(sign)' : 'max(sign) < 0';
  // By the key itself, DuckDB would group by direct addressing, in a table of all customers.
  return sql`(
    select ${columnsOf(keys).definitions} xor(customer_key, 0) as customer,
      sum(sign)::bigint as change,
      min(${raw(creationQuarter.name)}) as first, max(${raw(creationQuarter.name)}) as last
    from ${raw(delta)}.change
    where sign <> 0 and ${matching}
    group by all having ${raw(condition)}
  )`;
}

/** Selects the number of open customers. Without a base, none is superseded. */
export const openPart = (
  catalogs: StoreCatalogs,
  openness: Openness,
  matching: Sql = sql`true`,
): Sql =>
  openness === 'superseded' && catalogs.base === emptyBase
    ? sql`(select 0::bigint) as open_customers`
    : sql`(select count(*) from ${openCustomers(catalogs, openness, matching, {})}) as open_customers`;

/**
 * Selects what open customers add to the number of customers: one row for each group, or one row
 * without keys. `near` may limit the rows of the base to those that can be in these groups.
 */
export function openCorrections(
  catalogs: StoreCatalogs,
  openness: Openness,
  matching: Sql,
  keys: Keys,
  near: Sql = matching,
): Sql {
  const { names, definitions } = columnsOf(keys);
  const isSameGroup = Object.keys(keys).map((name) => ` and open.${name} = purchase.${name}`);
  const ofOpen = Object.keys(keys).map((name) => `open.${name}, `);
  return sql`(
    with open as materialized ${openCustomers(catalogs, openness, matching, keys)}
    select ${names} coalesce(sum(customers), 0)::bigint as customers
    from (
      select ${names} 1 as customers from open where change > 0
      union all
      select ${names} -1 from (
        select ${raw(ofOpen.join(''))} customer, change
        from (
          select ${definitions} customer_key from ${raw(catalogs.base)}.purchase where ${near}
        ) as purchase
        join open on customer = customer_key ${raw(isSameGroup.join(''))}
        group by all having change > 0 or count(*) = -change
      )
    )
    ${raw(ofOpen.length === 0 ? '' : 'group by all')}
  )`;
}

/** What `open` customers add to the number of customers. */
export async function countOpen(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  openness: Openness,
  open: bigint,
  matching: Sql = sql`true`,
): Promise<bigint> {
  if (open === 0n) return 0n;
  const [row] = await queryRows(
    connection,
    sql`select customers from ${openCorrections(catalogs, openness, matching, {})}`,
  );
  return row?.[0] as bigint;
}
