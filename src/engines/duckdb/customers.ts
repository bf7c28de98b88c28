import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw, type Sql } from 'sql-template-tag';
import { queryRows } from '../../duckdb/connection.ts';
import type { StoreCatalogs } from '../../purchase-store/relations.ts';

/** Selects the customers of the delta's rows with these signs that match. */
export const changedCustomers = (
  { delta }: StoreCatalogs,
  sign: '<' | '>',
  matching: Sql = sql`true`,
): Sql =>
  sql`select customer_key from ${raw(delta)}.change where (sign ${raw(sign)} 0 and ${matching})`;

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
        ${changedCustomers(catalogs, '>', matching)} or sign = 0
      ) group by customer_key
    )
  ) as customers, ${candidatesPart(catalogs, matching)}`;
}

/**
 * Selects a JSON list of customers that may be counted in vain: the delta supersedes matching
 * purchases of theirs, and adds none.
 */
export function candidatesPart(catalogs: StoreCatalogs, matching?: Sql): Sql {
  return sql`(
    select list(customer_key)::varchar
    from (${changedCustomers(catalogs, '<', matching)})
    anti join (${changedCustomers(catalogs, '>', matching)}) using (customer_key)
  ) as candidates`;
}

/** The number of these customers whose matching purchases in the base are all superseded. */
export async function countGone(
  connection: DuckDBConnection,
  { base, delta }: StoreCatalogs,
  candidates: string | null,
  matching: Sql = sql`true`,
): Promise<bigint> {
  if (candidates === null) return 0n;
  // By the key itself, DuckDB would group by direct addressing, in a table of all customers. Of
  // 750,000 customers and ten million purchases, 2,000 candidates took 85 ms instead of 20.
  const countedOf = (table: string, sign: string) => sql`
    select xor(customer_key, 0) as customer, count(*) as purchases from ${raw(table)}
    where customer_key in (select unnest(${candidates}::integer[])) and ${matching} ${raw(sign)}
    group by customer`;
  const [row] = await queryRows(
    connection,
    sql`
      select count(*)
      from (${countedOf(`${base}.purchase`, '')})
      join (${countedOf(`${delta}.change`, 'and sign < 0')}) using (customer, purchases)`,
  );
  return row?.[0] as bigint;
}
