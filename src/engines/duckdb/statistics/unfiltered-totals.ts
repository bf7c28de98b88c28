import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { emptyStats, type PurchaseTotals } from '../../../domain/purchase-engine.ts';
import { queryRows } from '../../../duckdb/connection.ts';
import type { Shortcuts } from '../../../duckdb/shortcuts.ts';
import { emptyBase } from '../../../purchase-store/delta/delta.ts';
import type { StoreCatalogs } from '../../../purchase-store/format/relations.ts';
import type { BaseCustomers, Generation } from '../serving/generation.ts';
import { currenciesOfAll, nameCurrencies, readCurrencies, sumsByCurrency } from './currencies.ts';
import { addedCustomers, countOpen, openCustomerCount } from './distinct-customers.ts';
import { customersOfBase } from './first-purchases.ts';

/**
 * The totals of all purchases. A base is read once, for all generations that share it. Each
 * generation adds the signed rows of its delta, so its cost grows with the number of changes.
 */
export async function unfilteredTotals(
  connection: DuckDBConnection,
  generation: Generation,
  shortcuts: Shortcuts,
): Promise<PurchaseTotals> {
  generation.totals ??= await readTotals(connection, generation, shortcuts);
  return generation.totals;
}

async function readTotals(
  connection: DuckDBConnection,
  generation: Generation,
  shortcuts: Shortcuts,
): Promise<PurchaseTotals> {
  const sums = await sumsByCurrency(connection, generation, shortcuts);
  let purchaseCount = 0n;
  let revenueInCents = 0n;
  for (const each of sums.values()) {
    purchaseCount += each.purchaseCount;
    revenueInCents += each.revenueInCents;
  }
  if (purchaseCount === 0n) return emptyStats;
  const customerCount = await countCustomers(connection, generation);
  const keys = currenciesOfAll(sums, shortcuts) ?? (await readCurrencies(connection, generation));
  const currencies = await nameCurrencies(connection, generation, keys);
  return { purchaseCount, customerCount, revenueInCents, ...currencies };
}

/** `count` customers have purchases in the base. */
async function readBaseCustomers(
  connection: DuckDBConnection,
  { base }: StoreCatalogs,
  count: bigint,
): Promise<BaseCustomers> {
  const [row] = await queryRows(
    connection,
    sql`select coalesce(max(key), -1), count(*) from ${raw(base)}.customer`,
  );
  const [greatestKey, known] = row as [number, bigint];
  return { greatestKey, hasUnused: count !== known };
}

/** Customers of the base, and those that only the delta has, without those that have no purchase left. */
async function countCustomers(
  connection: DuckDBConnection,
  generation: Generation,
): Promise<bigint> {
  const { catalogs, ofBase } = generation;
  const ofDelta = sql`select customer_key from (${addedCustomers(catalogs)}) group by 1`;
  if (catalogs.base === emptyBase) {
    const [row] = await queryRows(connection, sql`select count(*) from (${ofDelta})`);
    return row?.[0] as bigint;
  }
  const count = await customersOfBase(connection, generation);
  ofBase.customers ??= await readBaseCustomers(connection, catalogs, count);
  const { greatestKey, hasUnused } = ofBase.customers;
  const isNew = hasUnused
    ? sql`anti join ${raw(catalogs.base)}.purchase using (customer_key)`
    : sql`where customer_key > ${greatestKey}::integer`;
  const [row] = await queryRows(
    connection,
    sql`
      select * from (
        select count(*) from (${ofDelta}) ${isNew}
      ) as added, ${openCustomerCount(catalogs)}`,
  );
  const [added, open] = row as [bigint, bigint];
  return count + added + (await countOpen(connection, catalogs, open));
}
