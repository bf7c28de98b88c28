import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw, type Sql } from 'sql-template-tag';
import { queryRows } from '../../../duckdb/connection.ts';
import { groupedPurchases, type StoreCatalogs } from '../../../purchase-store/format/relations.ts';
import type { PeriodRow } from '../../time-series.ts';
import type { FirstsInPeriods, Periods } from '../calendar/periods.ts';
import { changedFirsts, firstsWithinQuarter } from './first-purchases.ts';

/** The matching purchases of periods, and the number of their customers. */
export type CountedPeriods = {
  readonly rows: readonly Omit<PeriodRow, 'series'>[];
  readonly customerCount: bigint;
};

/**
 * Reads the base once: a customer counts in the period of a purchase that is the first one there.
 * `baseCustomers` are the customers of the base, if they are known.
 */
export async function readPeriods(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  matching: Sql,
  { period, joined, keyOf, firsts }: Periods & { readonly firsts: FirstsInPeriods },
  baseCustomers: bigint | null,
): Promise<CountedPeriods> {
  const keys = { period };
  const inPeriod = { in_period: firsts.isFirstInPeriod };
  const inAll = { ...inPeriod, in_all: firsts.isFirst };
  const ofBase = baseCustomers === null ? inAll : inPeriod;
  const read = await queryRows(
    connection,
    sql`
      select period, sum(purchase_count)::bigint, sum(revenue), sum(in_period)::bigint, sum(in_all)::bigint
      from (
        select period, purchase_count, revenue, in_period, ${raw(baseCustomers === null ? 'in_all' : '0')} as in_all
        from ${groupedPurchases(catalogs, matching, keys, ofBase, joined)}
        union all
        select period, 0, 0, in_period, in_all
        from ${changedFirsts(catalogs, matching, keys, inAll, joined)}
      )
      group by period`,
  );
  const late = firsts.isWithinQuarter
    ? await firstsWithinQuarter(connection, catalogs, matching, firsts, { period, joined })
    : new Map<number, bigint>();
  // Later periods begin after the quarter.
  const missedIn = (period: number) =>
    keyOf(period) === firsts.cutPeriod ? (late.get(period) ?? 0n) : 0n;
  const rows = read.map(([period, purchaseCount, revenueInCents, customerCount]) => ({
    period: keyOf(period as number),
    purchaseCount: purchaseCount as bigint,
    revenueInCents: revenueInCents as bigint,
    customerCount: (customerCount as bigint) + missedIn(period as number),
  }));
  const known = [...late.values()].reduce((sum, count) => sum + count, baseCustomers ?? 0n);
  const customerCount = read.reduce((sum, row) => sum + (row[4] as bigint), known);
  return { rows: rows.filter(({ purchaseCount }) => purchaseCount > 0n), customerCount };
}
