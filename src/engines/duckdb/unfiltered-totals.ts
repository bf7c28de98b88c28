import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw, type Sql } from 'sql-template-tag';
import {
  emptyStats,
  type PurchaseSums,
  type PurchaseTotals,
} from '../../domain/purchase-engine.ts';
import { queryRows } from '../../duckdb/connection.ts';
import { labelKey, noLabel } from '../../purchase-store/layout.ts';
import { type StoreCatalogs, signedCents } from '../../purchase-store/relations.ts';
import { addedCustomers, candidatesPart, countSuperseded } from './customers.ts';
import type { BaseTotals, Generation } from './generation.ts';
import { currencyOf } from './labels.ts';

/**
 * The totals of all purchases. A base is read once, for all generations that share it. Each
 * generation adds the signed rows of its delta, so its cost grows with the number of changes.
 */
export async function unfilteredTotals(
  connection: DuckDBConnection,
  generation: Generation,
): Promise<PurchaseTotals> {
  generation.totals ??= await readTotals(connection, generation);
  return generation.totals;
}

async function readTotals(
  connection: DuckDBConnection,
  { catalogs, labels, ofBase }: Generation,
): Promise<PurchaseTotals> {
  const base = ofBase.totals ?? (await readBaseTotals(connection, catalogs));
  ofBase.totals = base;
  const ofDelta = await readSums(
    connection,
    sumsOf(`${catalogs.delta}.change`, 'sum(sign)', signedCents),
  );
  let purchaseCount = 0n;
  let revenueInCents = 0n;
  const currencies: number[] = [];
  for (const key of new Set([...base.sums.keys(), ...ofDelta.keys()])) {
    const [unchanged, changed] = [base.sums.get(key), ofDelta.get(key)];
    const count = (unchanged?.purchaseCount ?? 0n) + (changed?.purchaseCount ?? 0n);
    purchaseCount += count;
    revenueInCents += (unchanged?.revenueInCents ?? 0n) + (changed?.revenueInCents ?? 0n);
    if (count > 0n && key !== noLabel) currencies.push(key);
  }
  if (purchaseCount === 0n) return emptyStats;
  const customerCount = await countCustomers(connection, catalogs, base);
  const [first = null] = currencies;
  const currency = await currencyOf(connection, labels, first, currencies.at(-1) ?? null);
  return { purchaseCount, customerCount, revenueInCents, ...currency };
}

async function readBaseTotals(
  connection: DuckDBConnection,
  { base }: StoreCatalogs,
): Promise<BaseTotals> {
  const sums = await readSums(
    connection,
    sumsOf(`${base}.purchase`, 'count(*)', raw('purchase_value_in_cents')),
  );
  const [row] = await queryRows(
    connection,
    sql`
      select (select count(*) from (select customer_key from ${raw(base)}.purchase group by 1)),
        coalesce(max(key), -1), count(*)
      from ${raw(base)}.customer`,
  );
  const [customers, greatestCustomer, known] = row as [bigint, number, bigint];
  return { sums, customers, greatestCustomer, hasUnusedCustomers: customers !== known };
}

/** Selects count and revenue of a table's rows by currency. */
const sumsOf = (table: string, count: string, cents: Sql) =>
  sql`
    select ${raw(labelKey('currency'))}, ${raw(count)}::bigint, sum(${cents})
    from ${raw(table)} group by 1`;

async function readSums(
  connection: DuckDBConnection,
  statement: ReturnType<typeof sumsOf>,
): Promise<ReadonlyMap<number, PurchaseSums>> {
  const rows = await queryRows(connection, statement);
  return new Map(
    rows.map(([key, purchaseCount, revenueInCents]) => [
      key as number,
      { purchaseCount: purchaseCount as bigint, revenueInCents: revenueInCents as bigint },
    ]),
  );
}

/** Customers of the base, and those that only the delta has, without those that have no purchase left. */
async function countCustomers(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  { customers, greatestCustomer, hasUnusedCustomers }: BaseTotals,
): Promise<bigint> {
  const isNew = hasUnusedCustomers
    ? sql`anti join ${raw(catalogs.base)}.purchase using (customer_key)`
    : sql`where customer_key > ${greatestCustomer}::integer`;
  const [row] = await queryRows(
    connection,
    sql`
      select * from (
        select count(*)
        from (select distinct customer_key from (${addedCustomers(catalogs)})) ${isNew}
      ) as added, ${candidatesPart(catalogs)}`,
  );
  const [added, candidates] = row as [bigint, string | null];
  return customers + added - (await countSuperseded(connection, catalogs, candidates));
}
