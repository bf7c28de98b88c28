import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { empty, raw, type Sql } from 'sql-template-tag';
import type { PurchaseFilters } from '../../../domain/purchase-query.ts';
import { queryRows } from '../../../duckdb/connection.ts';
import type { Shortcuts } from '../../../duckdb/shortcuts.ts';
import {
  previousQuarterNames,
  previousQuarters,
} from '../../../purchase-store/format/previous-purchases.ts';
import type { Dialect, Part } from '../../report/statement.ts';
import { purchasesMatching } from '../filters.ts';
import type { Generation } from '../serving/generation.ts';

export const dialect: Dialect = {
  customer: 'customer_key',
  wide: (integer) => sql`${integer}::hugeint`,
  sum: (column) => sql`sum(${column})`,
  quotient: (dividend, divisor) => sql`(${dividend} // ${divisor})`,
  inByteOrder: (text) => text,
};

/** What a query needs beyond the columns of rows of sign -1. */
export type Needs = {
  /** `is_first`: the purchase is its customer's first one with the payment statuses of the filters. */
  readonly firsts: boolean;
  /** Distinct customers: each customer's purchases are in parts of their own. */
  readonly customers: boolean;
  /** Columns that rows of sign -1 lack. */
  readonly allColumns: boolean;
};

export type PurchasePart = Pick<Part, 'sign' | 'purchases'> & {
  /** The column with the quarter of an hour of the customer's previous purchase; of parts that have it. */
  readonly previous?: string;
};

/**
 * The current purchases as parts whose sums add up: those of the base, without the changed ones as they
 * were, and with these as they are. If a query needs first purchases, the changed ones are all purchases of
 * the customers of changed purchases: then also numbers of customers, and of first purchases, add up.
 */
export async function purchaseParts(
  connection: DuckDBConnection,
  generation: Generation,
  filters: PurchaseFilters,
  { firsts, customers, allColumns }: Needs,
  shortcuts: Shortcuts,
): Promise<PurchasePart[]> {
  const { base, delta } = generation.catalogs;
  const ofBase = sql`${raw(base)}.purchase`;
  const change = sql`${raw(delta)}.change`;
  const [changed] = await queryRows(
    connection,
    sql`select count(*) from ${change} where sign <> 0`,
  );
  const changes = Number(changed?.[0]);
  const hasChanges = changes > 0;
  const areInParts = changes <= shortcuts.maxChangesInParts;
  if (areInParts && !firsts && !customers && !allColumns) {
    if (!hasChanges) return [{ sign: 1, purchases: ofBase }];
    return [
      { sign: 1, purchases: ofBase },
      { sign: -1, purchases: sql`(select * from ${change} where sign < 0)` },
      { sign: 1, purchases: sql`(select * from ${change} where sign > 0)` },
    ];
  }
  const superseded = sql`(select id from ${change} where sign < 0)`;
  const added = sql`select * exclude (sign) from ${change} where sign > 0`;
  const touched = sql`semi join (select customer_key from ${change} where sign <> 0) using (customer_key)`;
  const current = (customers: Sql) => sql`(
    select * exclude (${raw(previousQuarterNames)}) from ${ofBase} ${customers}
    anti join ${superseded} as superseded using (id)
    union all
    ${added}
  )`;
  const isFirst = firstOfBase(generation, filters, shortcuts);
  // Distinct customers alone: by campaign, parts took a third more processor time than the anti join.
  if (!areInParts || (firsts ? isFirst === null : hasChanges)) {
    const all = current(empty);
    const purchases = firsts ? await withFirsts(connection, generation, filters, all) : all;
    return [{ sign: 1, purchases }];
  }
  const before = sql`(select *, ${isFirst ?? sql`false`} as is_first from ${ofBase})`;
  const { name: previous } = previousOf(filters);
  if (!hasChanges) return [{ sign: 1, purchases: before, previous }];
  return [
    { sign: 1, purchases: before, previous },
    { sign: -1, purchases: sql`(select * from ${before} as purchase ${touched})`, previous },
    {
      sign: 1,
      purchases: await withFirsts(connection, generation, filters, current(touched)),
    },
  ];
}

/** A condition on purchases of the base; null if its columns do not tell first purchases. */
function firstOfBase(
  { ofBase, summary }: Generation,
  { paymentStatuses = [] }: PurchaseFilters,
  { minPurchasesForStoredFirsts }: Shortcuts,
): Sql | null {
  if (summary.purchases < minPurchasesForStoredFirsts) return null;
  if (ofBase.firstQuarter === null) return sql`false`;
  if (paymentStatuses.length > 1) return null;
  return raw(`${previousOf({ paymentStatuses }).name} < ${ofBase.firstQuarter}`);
}

const previousOf = ({ paymentStatuses = [] }: PurchaseFilters) =>
  paymentStatuses.length === 0 ? previousQuarters.ofAny : previousQuarters.ofStatus;

/** `purchases` with `is_first`. DuckDB's window functions are not safe with several threads. */
async function withFirsts(
  connection: DuckDBConnection,
  { labels }: Generation,
  { paymentStatuses }: PurchaseFilters,
  purchases: Sql,
): Promise<Sql> {
  const counted = (await purchasesMatching(connection, labels, { paymentStatuses })) ?? sql`false`;
  return sql`(
    select purchase.*, coalesce(purchase.id = first.id, false) as is_first
    from ${purchases} as purchase
    left join (
      select customer_key, arg_min(id, {instant: created_at, id: id}) as id
      from ${purchases} as counted where ${counted} group by customer_key
    ) as first using (customer_key)
  )`;
}
