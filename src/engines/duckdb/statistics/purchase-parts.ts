import sql, { empty, raw, type Sql } from 'sql-template-tag';
import type { PurchaseFilters } from '../../../domain/purchase-query.ts';
import type { Shortcuts } from '../../../duckdb/shortcuts.ts';
import { emptyBase } from '../../../purchase-store/delta/delta.ts';
import { countedColumns, customerDictionary } from '../../../purchase-store/format/layout.ts';
import { previousQuarters } from '../../../purchase-store/format/previous-purchases.ts';
import type { PurchasePart } from '../../report/statement.ts';
import type { Reading } from '../query-context.ts';
import type { Generation } from '../serving/generation.ts';
import { idAt, place, presentWithFirsts } from './changed-firsts.ts';

/** What a query needs of its purchases. */
export type Needs = {
  /** Sums that are not those of the changes and of the base. */
  readonly customers: boolean;
  /** Sums that only present rows tell: of columns that superseded rows lack, or that changes cannot correct. */
  readonly presentRows: boolean;
  /** Coupons, which superseded rows lack too. */
  readonly coupons?: boolean;
  /** The first purchases of customers with the payment statuses of the filters. */
  readonly firsts: boolean;
  /** The most groups in which customers are counted. */
  readonly groups: number;
  /** The groups are periods alone. */
  readonly periods?: GroupedPeriods | undefined;
  /** So many groups that adding up those of two parts takes longer than reading both parts as one. */
  readonly ofCustomers?: boolean;
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

/**
 * The current purchases as parts. If sums add up, these are the base and the changes, which are rows with a sign; in
 * periods, where the base counts customers quickly, the changes correct their numbers. Otherwise customers need the
 * present rows as one part.
 */
export async function purchaseParts(
  reading: Reading,
  filters: PurchaseFilters,
  conditions: Conditions,
  needs: Needs,
): Promise<PurchasePart[]> {
  const {
    generation,
    context: { shortcuts },
  } = reading;
  const { catalogs, isUnchanged } = generation;
  const { matching, counted } = conditions;
  const change = raw(`${catalogs.delta}.change`);
  const of = (purchases: Sql): PurchasePart =>
    needs.firsts
      ? withFirsts(purchases, conditions)
      : { purchases: sql`${purchases} as purchase`, condition: matching };
  if (catalogs.base === emptyBase) {
    return [of(sql`(select * from ${change} where sign > 0)`)];
  }
  const base = raw(`${catalogs.base}.purchase`);
  const previous = previousIn(filters, generation, shortcuts);
  const isFirst = previous === null ? null : firstOf(generation, previous);
  const counts = { matching, needs };
  const ofBase = {
    ...(needs.firsts && isFirst === null
      ? of(base)
      : { purchases: sql`${base} as purchase`, condition: matching }),
    ...(isFirst === null ? {} : { isFirst }),
    ...countsOfCustomers(generation, { ...counts, all: base, previous }, shortcuts),
  };
  if (isUnchanged) return [ofBase];
  const columns = raw(countedColumns);
  // `signed_cents` of sign -1 is the complement, -1 - cents, because the opposite of -2^63 exceeds 64 bits.
  const signedRows = sql`(
    select 1::tinyint as sign, purchase_value_in_cents as signed_cents, ${columns} from ${base}
    union all
    select sign,
      case when sign < 0 then -1 - purchase_value_in_cents else purchase_value_in_cents end,
      ${columns}
    from ${change}
  )`;
  const changes = {
    purchases: sql`${change} as purchase`,
    condition: sql`sign <> 0 and ${matching}`,
    isSigned: true,
  };
  if (!needs.customers && !needs.presentRows) {
    return needs.ofCustomers === true
      ? [
          {
            purchases: sql`${signedRows} as purchase`,
            condition: matching,
            isSigned: true,
            cents: sql`(sum(signed_cents) + count(*) filter (sign < 0))`,
          },
        ]
      : [ofBase, changes];
  }
  if (!needs.firsts && !needs.presentRows && needs.periods !== undefined && previous !== null) {
    const corrected = { purchases: sql`${base} as purchase`, condition: matching };
    return [ofBase, { ...changes, corrected }];
  }
  const superseded = sql`anti join (select id from ${change} where sign < 0) as superseded using (id)`;
  const added = sql`select ${columns} from ${change} where sign > 0`;
  const present = sql`(select ${columns} from ${base} ${superseded} union all ${added})`;
  const ofAll = {
    ...counts,
    ...(needs.coupons === true
      ? { all: present }
      : { all: signedRows, having: raw('having sum(sign) > 0') }),
    previous: null,
  };
  const ofCustomers = countsOfCustomers(generation, ofAll, shortcuts);
  if (needs.firsts && isFirst !== null) {
    const present = await presentWithFirsts(reading, filters, { counted, isFirst });
    return [{ ...present, condition: matching, ...ofCustomers }];
  }
  return [{ ...of(present), ...ofCustomers }];
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

/** `purchases` with the first ones of their customers. DuckDB's window functions are not safe. */
const withFirsts = (purchases: Sql, { matching, counted }: Conditions): PurchasePart => ({
  condition: matching,
  isFirst: sql`(purchase.id = first_id) is true`,
  purchases: sql`
    ${purchases} as purchase
    left join (
      select customer_key, ${idAt(sql`min(${place})`)} as first_id
      from ${purchases} as counted where ${counted} group by customer_key
    ) as first using (customer_key)`,
});

type Counted = {
  /** All purchases as a table of SQL, and a condition of their customers. */
  readonly all: Sql;
  readonly having?: Sql;
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
  { all, having = empty, matching, previous, needs: { groups, periods } }: Counted,
  { maxBitmapBytes, maxBitsPerPurchase }: Shortcuts,
): Pick<PurchasePart, 'countCustomers' | 'allCustomers'> {
  const { keyCounts, summary } = generation;
  const customers = keyCounts(customerDictionary);
  if (customers === 0 || maxBitmapBytes === 0) return {};
  const allCustomers = sql`(
    select count(*) from (select customer_key from ${all} as purchase where ${matching} group by customer_key ${having})
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
