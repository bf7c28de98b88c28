import sql, { raw, type Sql } from 'sql-template-tag';
import { maxCouponBytes, numericCode } from '../../domain/coupon-codes.ts';
import type { CouponConditions } from '../filter-conditions.ts';

/** Selects the codes of a purchase's coupons (domain/coupon-codes.ts) as `coupon`. */
const codes = raw(`
  select distinct code #>> '{}' as coupon
  from jsonb_array_elements(
      case when jsonb_typeof(coupons) = 'array' and octet_length(coupons::text) <= ${maxCouponBytes} then coupons end
    ) as element,
    lateral (select case jsonb_typeof(element) when 'object' then element -> 'code' end as code) as of_element
  where jsonb_typeof(code) = 'string' or (jsonb_typeof(code) = 'number' and code::text ~ '${numericCode}')`);

export const couponConditions: CouponConditions = {
  hasAnyOf: (wanted) =>
    sql`exists (select from (${codes}) as of_purchase where coupon = any(${[...wanted]}::text[]))`,
  hasNone: sql`not exists (${codes})`,
};

/** A row for each code of a purchase, or one without a code. */
export const withCoupons = (purchases: Sql): Sql => sql`
  select purchase.*, coupon from (${purchases}) as purchase left join lateral (${codes}) as of_purchase on true`;
