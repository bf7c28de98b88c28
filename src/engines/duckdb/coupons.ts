import sql, { join, raw, type Sql } from 'sql-template-tag';
import { maxCouponBytes, numericCode } from '../../domain/coupon-codes.ts';
import type { ReportDimension } from '../../domain/purchase-report.ts';
import { queryRows } from '../../duckdb/connection.ts';
import type { StoreCatalogs } from '../../purchase-store/format/relations.ts';
import type { CouponConditions } from '../filter-conditions.ts';
import type { Reading } from './query-context.ts';
import type { Generation } from './serving/generation.ts';

/** The `code` of each coupon, as a list of JSON; null without coupons. */
const stored = raw(
  `json_extract(case when strlen(coupons) <= ${maxCouponBytes} then coupons end, '$[*].code')`,
);
/** A number as JSON writes it. */
const isNumber = /^(0|-?[1-9][0-9]*)$/;

/** A condition of a `code`: it is one of domain/coupon-codes.ts. */
const isCode = raw(`(starts_with(code, '"') or regexp_matches(code, '${numericCode}'))`);

/**
 * DuckDB computes the lists once for each distinct text of a row group, because base files have these in
 * dictionaries: for a million purchases in 5 ms.
 */
export const couponConditions: CouponConditions = {
  hasAnyOf(wanted) {
    const texts = wanted.map((code) => sql`to_json(${code}::varchar)`);
    const numbers = wanted.filter((code) => isNumber.test(code)).map((code) => sql`${code}::json`);
    return sql`coalesce(list_has_any(${stored}, [${join([...texts, ...numbers])}]), false)`;
  },
  hasNone: sql`(coalesce(len(list_filter(${stored}, lambda code: ${isCode})), 0) = 0)`,
};

/** Selects the codes of each distinct list of coupons. */
const selectCodes = (purchases: Sql): Sql => sql`
  select distinct coupons, code ->> '$' as coupon
  from (
    select coupons, unnest(${stored}) as code
    from (select distinct coupons from ${purchases} where strlen(coupons) <= ${raw(String(maxCouponBytes))})
  ) where ${isCode}`;

const purchasesOfBase = ({ base }: StoreCatalogs): Sql => raw(`${base}.purchase`);

/**
 * Joins purchases with their codes, as `coupon`. Codes are found once for each distinct text: a million purchases take
 * 12 ms, and 130 ms with a list for each purchase. The limit, which is the number of rows, tells DuckDB that these are fewer
 * than purchases. Otherwise it builds the hash table of the purchases, which takes 80 ms.
 */
export function joinCoupons({ catalogs, ofBase: { coupons } }: Generation): Sql {
  if (coupons === null) throw new Error('the coupons of the base are not counted');
  const ofChanges = sql`(select coupons from ${raw(catalogs.delta)}.change where sign > 0)`;
  return sql`
    left join (
      select distinct coupons, coupon from (
        (${selectCodes(purchasesOfBase(catalogs))} limit ${raw(String(coupons.rows))})
        union all ${selectCodes(ofChanges)}
      )
    ) as of_coupons using (coupons)`;
}

/** Counts the coupons of the base, which queries by these dimensions need to know. */
export async function countCoupons(
  { connection, generation: { catalogs, ofBase } }: Reading,
  dimensions: readonly ReportDimension[],
): Promise<void> {
  if (!dimensions.includes('coupon') || ofBase.coupons !== null) return;
  const [row] = await queryRows(
    connection,
    sql`
      select count(*), count(distinct coupon) from (${selectCodes(purchasesOfBase(catalogs))})`,
  );
  const [rows, codes] = row as [bigint, bigint];
  ofBase.coupons = { rows: Number(rows), codes: Number(codes) };
}
