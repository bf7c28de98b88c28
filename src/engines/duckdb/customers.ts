import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { empty, raw, type Sql } from 'sql-template-tag';
import { isUnfiltered, type PurchaseFilters } from '../../domain/purchase-query.ts';
import { queryRows } from '../../duckdb/connection.ts';
import { previousQuarters } from '../../purchase-store/previous-purchases.ts';
import {
  creationQuarter,
  isQuarterHour,
  quarterHourOf,
} from '../../purchase-store/quarter-hours.ts';
import type { StoreCatalogs } from '../../purchase-store/relations.ts';
import type { Generation } from './generation.ts';

/** What tells of a row of a base whether it is the first matching purchase of its customer. */
export type FirstPurchases = {
  /** The column with the quarter of an hour of the previous purchase. */
  readonly previous: Sql;
  /** A condition: the purchase is the first one. */
  readonly isFirst: Sql;
};

/**
 * For the periods of a series. Statistics count in one scan as fast by grouping dense keys, and faster if the
 * delta adds purchases: open customers then need a scan of their own.
 *
 * Null for filters other than a payment status and a time range that begins with a quarter of an
 * hour: their customers have to be grouped. So have those of an organization without a base.
 */
export function firstPurchases(
  { ofBase }: Generation,
  { paymentStatus, createdSince, createdUntil: _until, ...others }: PurchaseFilters,
): FirstPurchases | null {
  const { firstQuarter } = ofBase;
  if (firstQuarter === null || !isUnfiltered(others)) return null;
  const since = createdSince === undefined ? firstQuarter : quarterHourOf(createdSince);
  const isExact = createdSince === undefined || isQuarterHour(createdSince) || since < firstQuarter;
  if (!isExact) return null;
  const { name } = paymentStatus === undefined ? previousQuarters.ofAny : previousQuarters.ofStatus;
  // Quarters before the first purchase say that there is no previous one.
  const begin = raw(String(Math.max(since, firstQuarter)));
  return { previous: raw(name), isFirst: sql`${raw(name)} < ${begin}` };
}

/** Selects the customers of the matching purchases that the delta adds. */
export const addedCustomers = ({ delta }: StoreCatalogs, matching: Sql = sql`true`): Sql =>
  sql`select customer_key from ${raw(delta)}.change where (sign > 0 and ${matching})`;

/**
 * Selects the number of customers with a matching purchase in the base or in the delta, and the open
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

/** Selects the open customers: their key, and the sum of the signs. `keys` are more columns to group by. */
export function openCustomers(
  { delta }: StoreCatalogs,
  openness: Openness,
  matching: Sql,
  keys: Sql = empty,
): Sql {
  const condition = openness === 'any' ? 'min(sign) = max(sign)' : 'max(sign) < 0';
  // By the key itself, DuckDB would group by direct addressing, in a table of all customers.
  return sql`(
    select ${keys} xor(customer_key, 0) as customer, sum(sign)::bigint as change,
      min(${raw(creationQuarter.name)}) as first, max(${raw(creationQuarter.name)}) as last
    from ${raw(delta)}.change
    where sign <> 0 and ${matching}
    group by all having ${raw(condition)}
  )`;
}

/** Selects the number of open customers, and of those with the sign 1. */
export const openPart = (
  catalogs: StoreCatalogs,
  openness: Openness,
  matching: Sql = sql`true`,
): Sql => sql`(
    select count(*) as open, count(*) filter (change > 0) as added
    from ${openCustomers(catalogs, openness, matching)}
  ) as open_customers`;

/** The numbers that `openPart` selects. */
export type OpenNumbers = readonly [open: bigint, added: bigint];

/** What open customers add to the number of customers. */
export async function countOpen(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  openness: Openness,
  [open, added]: OpenNumbers,
  matching: Sql = sql`true`,
): Promise<bigint> {
  if (open === 0n) return 0n;
  const [row] = await queryRows(
    connection,
    sql`
      select count(*) from (
        select change
        from ${raw(catalogs.base)}.purchase
        join ${openCustomers(catalogs, openness, matching)} on customer_key = customer
        where ${matching}
        group by customer, change having change > 0 or count(*) = -change
      )`,
  );
  return added - (row?.[0] as bigint);
}
