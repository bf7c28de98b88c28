import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw, type Sql } from 'sql-template-tag';
import { type DuckDBRow, queryRows } from '../../duckdb/connection.ts';
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
 * Selects a JSON list of customers and their superseded purchases. The delta supersedes matching
 * purchases of these customers, and adds none, so they may be counted without a matching purchase.
 */
export function candidatesPart({ delta }: StoreCatalogs, matching: Sql = sql`true`): Sql {
  return sql`(
    select list([customer, purchases])::varchar from (
      select ${hashedCustomer} as customer, count(*) as purchases
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
  const superseded = new Map(JSON.parse(candidates) as [number, number][]);
  const rows = await queryRows(
    connection,
    sql`
      select ${hashedCustomer} as customer, count(*) from ${raw(base)}.purchase
      where customer_key in (select unnest(${JSON.stringify([...superseded.keys()])}::integer[]))
        and ${matching}
      group by customer`,
  );
  const isSuperseded = ([customer, purchases]: DuckDBRow) =>
    superseded.get(customer as number) === Number(purchases);
  return BigInt(rows.filter(isSuperseded).length);
}

/**
 * The key of a customer, for a few of many customers. By the key itself, DuckDB would group by
 * direct addressing, in a table of all customers: of 750,000 customers and ten million purchases,
 * 2,000 candidates took 85 ms instead of 20.
 */
const hashedCustomer = raw('xor(customer_key, 0)');
