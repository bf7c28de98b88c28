import sql, { raw, type Sql } from 'sql-template-tag';
import type { PurchaseFilters } from '../../../domain/purchase-query.ts';
import type { Shortcuts } from '../../../duckdb/shortcuts.ts';
import { emptyBase } from '../../../purchase-store/delta/delta.ts';
import { countedColumns, customerDictionary } from '../../../purchase-store/format/layout.ts';
import { previousQuarters } from '../../../purchase-store/format/previous-purchases.ts';
import type { Part } from '../../report/statement.ts';
import type { Generation } from '../serving/generation.ts';

/** What a query needs of its purchases. */
export type Needs = {
  /**
   * Sums that need all purchases of a customer before and after changes, as first purchases do, or columns that
   * superseded rows lack.
   */
  readonly customers: boolean;
  /** The first purchases of customers with the payment statuses of the filters. */
  readonly firsts: boolean;
  /** The most groups in which customers are counted. */
  readonly groups: number;
  /** The groups are periods alone. */
  readonly periods?: GroupedPeriods | undefined;
};

export type GroupedPeriods = {
  /** The period of a purchase begins after a quarter of an hour. */
  readonly beginsAfter: (quarter: Sql) => Sql;
  /** A condition of the purchases of the period that the range cuts; null without a bound. */
  readonly isCut: Sql | null;
};

/** Conditions on the purchases of a version. */
export type Conditions = {
  readonly matching: Sql;
  /** The purchases among which a first one is found. */
  readonly counted: Sql;
};

/** Whether parts read the table `purchase_before`: not if it would probably have too many purchases. */
export function needsBefore(
  { isUnchanged, catalogs, changes, summary, keyCounts }: Generation,
  { maxPurchasesBefore }: Shortcuts,
): boolean {
  if (isUnchanged || catalogs.base === emptyBase) return false;
  const ofCustomer = summary.purchases / Math.max(1, keyCounts(customerDictionary));
  // Customers with changes have more purchases than others.
  return 4 * changes * ofCustomer <= maxPurchasesBefore;
}

/**
 * The current purchases as parts: those of the base, and the rows by which others differ. These are the changes
 * alone if sums add up, and otherwise all purchases of the customers with changes, before and after.
 */
export function purchaseParts(
  generation: Generation,
  filters: PurchaseFilters,
  { matching, counted }: Conditions,
  needs: Needs,
  shortcuts: Shortcuts,
): Part[] {
  const { catalogs, isUnchanged, before } = generation;
  const change = raw(`${catalogs.delta}.change`);
  const of = (purchases: Sql): Part => {
    const all = { purchases: sql`${purchases} as purchase`, condition: matching };
    return needs.firsts ? withFirsts(all, purchases, counted, false) : all;
  };
  if (catalogs.base === emptyBase) {
    return [of(sql`(select * from ${change} where sign > 0)`)];
  }
  const base = raw(`${catalogs.base}.purchase`);
  const previous = previousIn(filters, generation, shortcuts);
  const isFirst = previous === null ? null : firstOf(generation, previous);
  const ofBase = {
    ...(needs.firsts && isFirst === null
      ? of(base)
      : { purchases: sql`${base} as purchase`, condition: matching }),
    ...(isFirst === null ? {} : { isFirst }),
    ...countsOfCustomers(generation, { base, matching, previous, needs }, shortcuts),
  };
  if (isUnchanged) return [ofBase];
  if (!needs.customers) {
    const changes = { purchases: sql`${change} as purchase`, isSigned: true };
    return [ofBase, { ...changes, condition: sql`sign <> 0 and ${matching}` }];
  }
  const columns = raw(countedColumns);
  const superseded = sql`anti join (select id from ${change} where sign < 0) as superseded using (id)`;
  const added = sql`select 1 as sign, ${columns} from ${change} where sign > 0`;
  if (before !== 'complete') {
    return [of(sql`(select 1 as sign, ${columns} from ${base} ${superseded} union all ${added})`)];
  }
  const ofCustomers = raw(`${catalogs.delta}.purchase_before`);
  const signed = sql`(
    select -1 as sign, * from ${ofCustomers}
    union all select 1, * from ${ofCustomers} ${superseded}
    union all by name ${added}
  )`;
  const changed = { purchases: sql`${signed} as purchase`, condition: matching };
  if (!needs.firsts) return [ofBase, { ...changed, isSigned: true }];
  const first = withFirsts(changed, signed, counted, true);
  // A base may have a changed purchase twice, of which only one is a first one by its previous purchase.
  const isFirstNow = first.isFirst ?? sql`false`;
  const isFirstOfSign =
    isFirst === null ? isFirstNow : sql`case when sign < 0 then ${isFirst} else ${isFirstNow} end`;
  return [ofBase, { ...first, isFirst: isFirstOfSign, isSigned: true }];
}

/** The column with the quarter of an hour of a customer's previous purchase with these payment statuses. */
function previousIn(
  { paymentStatuses = [] }: PurchaseFilters,
  { summary }: Generation,
  { minPurchasesForStoredFirsts }: Shortcuts,
): Sql | null {
  if (summary.purchases < minPurchasesForStoredFirsts || paymentStatuses.length > 1) return null;
  const { ofAny, ofStatus } = previousQuarters;
  return raw((paymentStatuses.length === 0 ? ofAny : ofStatus).name);
}

const firstOf = ({ ofBase: { firstQuarter } }: Generation, previous: Sql): Sql =>
  firstQuarter === null ? sql`false` : sql`${previous} < ${raw(String(firstQuarter))}`;

/** `purchases` with the first ones of their customers, of each sign. DuckDB's window functions are not safe. */
function withFirsts(part: Part, purchases: Sql, counted: Sql, isSigned: boolean): Part {
  const keys = raw(isSigned ? 'sign, customer_key' : 'customer_key');
  // By the key itself, DuckDB would group these few rows by direct addressing, in a table of all customers.
  const grouped = raw(isSigned ? 'sign, xor(customer_key, 0) as customer_key' : 'customer_key');
  return {
    ...part,
    isFirst: sql`(purchase.id = first_id) is true`,
    purchases: sql`
      ${purchases} as purchase
      left join (
        select ${grouped}, arg_min(id, {instant: created_at, id: id}) as first_id
        from ${purchases} as counted where ${counted} group by all
      ) as first using (${keys})`,
  };
}

type OfBase = {
  readonly base: Sql;
  readonly matching: Sql;
  readonly previous: Sql | null;
  readonly needs: Needs;
};

/**
 * Counts customers by a bit for each key, if these take little memory. In periods, a customer counts with the
 * purchase whose previous one is of an earlier period; only the period that a range cuts has bits. All matching
 * purchases are grouped by their customers in less time.
 */
function countsOfCustomers(
  generation: Generation,
  { base, matching, previous, needs: { groups, periods } }: OfBase,
  { maxBitmapBytes, maxBitsPerPurchase }: Shortcuts,
): Pick<Part, 'countCustomers' | 'allCustomers'> {
  const { keyCounts, summary } = generation;
  const customers = keyCounts(customerDictionary);
  if (customers === 0 || maxBitmapBytes === 0) return {};
  const allCustomers = sql`(
    select count(*) from (select customer_key from ${base} where ${matching} group by customer_key)
  )`;
  const greatest = raw(String(customers - 1));
  const bits = (condition: Sql) =>
    sql`coalesce(bit_count(bitstring_agg(customer_key, 0, ${greatest}) filter (${condition})), 0)`;
  const bytes = (Math.min(groups, summary.purchases) * customers) / 8;
  const areFew = bytes <= maxBitmapBytes && 8 * bytes <= summary.purchases * maxBitsPerPurchase;
  const countMeeting = areFew ? bits : undefined;
  if (periods === undefined || previous === null) {
    if (countMeeting === undefined) return { allCustomers };
    return { countCustomers: (condition) => countMeeting(condition ?? sql`true`), allCustomers };
  }
  const { beginsAfter, isCut } = periods;
  const isFirst = sql`(${beginsAfter(previous)} or ${firstOf(generation, previous)})`;
  const countAll =
    isCut === null
      ? sql`sum(${isFirst}::integer)`
      : sql`sum((${isFirst} and not ${isCut})::integer) + ${bits(isCut)}`;
  return {
    countCustomers: (condition) => (condition === null ? countAll : countMeeting?.(condition)),
    allCustomers,
  };
}
