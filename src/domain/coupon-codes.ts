import { digitsOf, isNumber, isText, parseExactly } from './exact-numbers.ts';

/**
 * The pattern of a number that is a code, in SQL and JavaScript. DuckDB keeps the digits of whole numbers alone:
 * it writes 1.50 as 1.5.
 */
export const numericCode = '^-?[0-9]{1,100}$';

/**
 * The codes of longer lists are not read, in bytes of JSON as Postgres writes it: some forty coupons. Nine thousand lists of 60 KB would
 * not fit into DuckDB's memory.
 */
export const maxCouponBytes = 4096;

/**
 * The codes of a list of coupons: the texts and whole numbers that its objects have as `code`. Engines find the same
 * in SQL.
 */
export function couponCodes(coupons: string | null): string[] {
  const isRead = coupons !== null && Buffer.byteLength(coupons) <= maxCouponBytes;
  const stored = isRead ? parseExactly(coupons) : null;
  const items: readonly ({ readonly code?: unknown } | null)[] = Array.isArray(stored)
    ? stored
    : [];
  return items.flatMap((item) => codeOf(item?.code) ?? []);
}

const isWhole = new RegExp(numericCode);

function codeOf(code: unknown): string | null {
  if (isText(code)) return code;
  const digits = isNumber(code) ? digitsOf(code) : '';
  return isWhole.test(digits) ? digits : null;
}
