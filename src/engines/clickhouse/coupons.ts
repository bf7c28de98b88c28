import sql, { join, raw, type Sql } from 'sql-template-tag';
import { maxCouponBytes, numericCode } from '../../domain/coupon-codes.ts';
import type { CouponConditions } from '../filter-conditions.ts';

/** A text of SQL. */
const text = (characters: string): string => `'${characters.replaceAll('\\', '\\\\')}'`;

/**
 * JSON with each number as a text that begins with NUL, which no text of Postgres contains. ClickHouse reads no
 * document with an integer of more than 64 bits, and 12.0 as 12.
 */
const withTextsForNumbers = (json: string): string => {
  const tokens = text('("(?:[^"\\\\]|\\\\.)*")|(-?[0-9][0-9.eE+-]*)');
  const marked = `replaceRegexpAll(${json}, ${tokens}, concat('\\\\1', char(1), '\\\\2', char(2)))`;
  return `replaceAll(replaceAll(replaceAll(${marked},
    char(1, 2), ''), char(1), ${text('"\\u0000')}), char(2), '"')`;
};

/** The codes of a purchase's coupons (domain/coupon-codes.ts), as an array. */
const codes = raw(`
  arrayDistinct(arrayMap(
    code -> if(startsWith(code, char(0)), substring(code, 2), code),
    arrayFilter(
      code -> not startsWith(code, char(0)) or match(substring(code, 2), '${numericCode}'),
      arrayMap(
        coupon -> JSONExtractString(coupon, 'code'),
        arrayFilter(
          coupon -> JSONType(coupon, 'code') = 'String',
          JSONExtractArrayRaw(${withTextsForNumbers(`if(length(coupons) <= ${maxCouponBytes}, assumeNotNull(coupons), '[]')`)})
        )
      )
    )
  ))`);

export const couponConditions: CouponConditions = {
  hasAnyOf: (wanted) =>
    sql`(coupons is not null and hasAny(${codes}, [${join(wanted.map((code) => sql`${code}`))}]))`,
  hasNone: sql`(coupons is null or empty(${codes}))`,
};

/** A row for each code of a purchase, or one without a code. */
export const withCoupons = (purchases: Sql): Sql => sql`
  select *, arrayJoin(if(empty(codes), [null], codes)) as coupon
  from (select *, if(coupons is null, [], ${codes}) as codes from (${purchases}))`;
