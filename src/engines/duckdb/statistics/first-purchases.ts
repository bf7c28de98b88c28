import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { empty, join, raw, type Sql } from 'sql-template-tag';
import type { PaymentStatus } from '../../../domain/purchase.ts';
import { isUnfiltered, type PurchaseFilters } from '../../../domain/purchase-query.ts';
import { queryRows } from '../../../duckdb/connection.ts';
import type { Shortcuts } from '../../../duckdb/shortcuts.ts';
import { previousQuarters } from '../../../purchase-store/format/previous-purchases.ts';
import {
  creationQuarter,
  isQuarterHour,
  quarterHourOf,
} from '../../../purchase-store/format/quarter-hours.ts';
import {
  columnsOf,
  type GroupKeys,
  type StoreCatalogs,
} from '../../../purchase-store/format/relations.ts';
import type { Generation } from '../serving/generation.ts';

/** Tells the first matching purchase of each customer, so that customers need not be grouped. */
export type FirstPurchases = {
  /** The column with the quarter of an hour of the previous matching purchase. */
  readonly previous: Sql;
  /** A purchase is the first one of its customer if its `previous` is earlier than this quarter. */
  readonly since: number;
  /** A condition on matching rows of a base and of `previous_change`: the first one of its customer. */
  readonly isFirst: Sql;
  /** That of all matching purchases; undefined if they have any. */
  readonly paymentStatus: PaymentStatus | undefined;
  /** The customers of the base are stored: no bound of time excludes its purchases. */
  readonly hasStoredCustomers: boolean;
  /** The range begins within the quarter `since`: a previous purchase of this quarter may be within it. */
  readonly isWithinQuarter: boolean;
};

/**
 * Null for filters other than one payment status and a time range, without a base, and if the range may
 * begin with purchases that are earlier than those of the base.
 */
export function firstPurchases(
  { ofBase, summary }: Generation,
  { paymentStatuses = [], createdSince, createdUntil, ...others }: PurchaseFilters,
  { minPurchasesForStoredCustomers }: Shortcuts,
): FirstPurchases | null {
  const { firstQuarter } = ofBase;
  if (firstQuarter === null || paymentStatuses.length > 1 || !isUnfiltered(others)) return null;
  const since = createdSince === undefined ? null : quarterHourOf(createdSince);
  // Rows without a previous purchase have the quarter before the base's first.
  const isOfAll = since === null || since < firstQuarter;
  if (isOfAll && quarterHourOf(summary.first) < firstQuarter) return null;
  const first = isOfAll ? firstQuarter : since;
  const [paymentStatus] = paymentStatuses;
  const areCustomersStored = summary.purchases >= minPurchasesForStoredCustomers;
  return {
    previous: previousOf(paymentStatus),
    since: first,
    isFirst: isFirstSince(first, paymentStatus),
    paymentStatus,
    hasStoredCustomers: isOfAll && createdUntil === undefined && areCustomersStored,
    isWithinQuarter: !isOfAll && !isQuarterHour(createdSince ?? 0n),
  };
}

const previousOf = (paymentStatus: PaymentStatus | undefined): Sql => {
  const { ofAny, ofStatus } = previousQuarters;
  return raw((paymentStatus === undefined ? ofAny : ofStatus).name);
};

const isFirstSince = (quarter: number | null, paymentStatus: PaymentStatus | undefined): Sql =>
  sql`${previousOf(paymentStatus)} < ${raw(String(quarter))}`;

/**
 * The number of customers with purchases in the base, or with purchases of a payment status, which
 * `matching` selects. Read once for each base.
 */
export async function customersOfBase(
  connection: DuckDBConnection,
  { catalogs, ofBase }: Generation,
  paymentStatus?: PaymentStatus,
  matching: Sql = sql`true`,
): Promise<bigint> {
  const known = ofBase.customersOf.get(paymentStatus);
  if (known !== undefined) return known;
  const isFirst = isFirstSince(ofBase.firstQuarter, paymentStatus);
  const counted = sql`select count(*) from ${raw(catalogs.base)}.purchase where ${matching} and ${isFirst}`;
  const [row] = await queryRows(connection, counted);
  const count = row?.[0] as bigint;
  ofBase.customersOf.set(paymentStatus, count);
  return count;
}

/**
 * Selects what `previous_change` adds to the numbers of matching rows of the base that meet each of
 * `conditions`, by `keys`. `joined` is a join of the table.
 */
export function changedFirsts(
  { delta }: StoreCatalogs,
  matching: Sql,
  keys: GroupKeys,
  conditions: Readonly<Record<string, Sql>>,
  joined: Sql = empty,
): Sql {
  const hasKeys = Object.keys(keys).length > 0;
  const counts = Object.entries(conditions).map(
    ([name, isMet]) => sql`coalesce(sum(sign * (${isMet})::integer), 0)::bigint as ${raw(name)}`,
  );
  return sql`(
    select ${columnsOf(keys).definitions} ${join(counts)}
    from ${raw(delta)}.previous_change ${joined}
    where ${matching} ${raw(hasKeys ? 'group by all' : '')}
  )`;
}

/**
 * The customers whose first matching purchase has its previous one in the quarter `since`, but before the
 * range: by the period of the first one. `isFirst` misses them. Only a few purchases are read.
 */
export async function firstsWithinQuarter(
  connection: DuckDBConnection,
  { base, delta }: StoreCatalogs,
  matching: Sql,
  { previous, since }: FirstPurchases,
  { period, joined }: { readonly period: Sql; readonly joined: Sql },
): Promise<ReadonlyMap<number, bigint>> {
  const quarter = raw(String(since));
  const ofQuarter = raw(creationQuarter.name);
  const columns = sql`customer_key, created_at, id, ${ofQuarter}, ${previous} as previous`;
  // The first purchase is in the quarter, or the previous one of a later purchase is. Conditions on one
  // column each, which DuckDB applies before it reads others.
  const candidates = [
    sql`${previous} = ${quarter}`,
    sql`${ofQuarter} = ${quarter} and ${previous} <> ${quarter}`,
  ].flatMap((isCandidate) => [
    sql`select ${columns}, 1 as sign from ${raw(base)}.purchase where ${matching} and ${isCandidate}`,
    sql`select ${columns}, sign from ${raw(delta)}.previous_change where ${matching} and ${isCandidate}`,
  ]);
  const earliest = (column: Sql) => sql`arg_min(${column}, {instant: created_at, id: id})`;
  const counted = await queryRows(
    connection,
    sql`
      select period, count(*)
      from (
        select ${period} as period
        from (
          select ${earliest(raw('previous'))} as previous, ${earliest(ofQuarter)} as ${ofQuarter}
          from (
            select * exclude (sign) from (${join(candidates, ' union all ')})
            group by all having sum(sign) > 0
          )
          group by customer_key
        )
        ${joined}
        where previous = ${quarter}
      )
      group by period`,
  );
  return new Map(counted.map(([period, count]) => [period as number, count as bigint]));
}
