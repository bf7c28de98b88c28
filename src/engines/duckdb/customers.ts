import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw, type Sql } from 'sql-template-tag';
import { queryRows } from '../../duckdb/connection.ts';
import type { StoreCatalogs } from '../../purchase-store/relations.ts';

/** Selects the customers of the matching purchases that the delta adds. */
export const addedCustomers = ({ delta }: StoreCatalogs, matching: Sql = sql`true`): Sql =>
  sql`select customer_key from ${raw(delta)}.change where (sign > 0 and ${matching})`;

/**
 * Selects the number of customers with a matching purchase in the base or in the delta. DuckDB
 * hashes `count(distinct …)` beside other aggregates, but groups dense keys by direct addressing.
 * The row of sign 0, one customer too many, is always read.
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
  ) as customers, ${candidatesPart(catalogs, matching)}`;
}

/**
 * Selects a list of customers with the number of their superseded purchases, as text. The delta
 * supersedes matching purchases of these customers, and adds none. So these customers may be
 * counted without a matching purchase.
 */
export function candidatesPart({ delta }: StoreCatalogs, matching: Sql = sql`true`): Sql {
  // By the key itself, DuckDB would group by direct addressing, in a table of all customers.
  return sql`(
    select list([customer, purchases])::varchar from (
      select xor(customer_key, 0) as customer, count(*) as purchases
      from ${raw(delta)}.change
      where sign <> 0 and ${matching}
      group by customer having max(sign) < 0
    )
  ) as candidates`;
}

/** The number of these customers whose matching purchases in the base are all superseded. */
export async function countSuperseded(
  connection: DuckDBConnection,
  { base }: StoreCatalogs,
  candidates: string | null,
  matching: Sql = sql`true`,
): Promise<bigint> {
  if (candidates === null) return 0n;
  const [row] = await queryRows(
    connection,
    sql`
      select count(*) from (
        select superseded
        from ${raw(base)}.purchase
        join (
          select pair[1] as customer, pair[2] as superseded
          from (select unnest(${candidates}::bigint[][]) as pair)
        ) on customer_key = customer
        where ${matching}
        group by customer, superseded having count(*) = superseded
      )`,
  );
  return row?.[0] as bigint;
}
