import sql, { type Sql } from 'sql-template-tag';
import { digitSearch, eitherOf, type Search } from '../../postgres/lists/search.ts';

const maxCountryCodeDigits = 3;
/** A shorter number may lack more than a country code, so it is no number without one. */
const minNationalDigits = 8;

/** Customers whose number has these digits, also if one of the two begins with a trunk zero. */
export function phoneSearch(digits: string): Search {
  const hasTrunkZero = /^0[1-9]/.test(digits) && digits.length > minNationalDigits;
  const search = numberSearch(digits);
  return hasTrunkZero ? eitherOf(search, numberSearch(digits.slice(1))) : search;
}

/** Numbers with these digits in a row, or the same number without a country code. */
function numberSearch(digits: string): Search {
  const contains = digitSearch('phone', digits);
  const isNational = isSameWithoutCode(digits);
  return isNational === null
    ? contains
    : eitherOf(contains, { matches: isNational, indexed: isNational });
}

/** The index contains reversed digits. Null if the digits have no country code. */
function isSameWithoutCode(digits: string): Sql | null {
  const reversed = [...digits].reverse().join('');
  const national = Array.from({ length: maxCountryCodeDigits }, (_, index) =>
    reversed.slice(0, -1 - index),
  ).filter(({ length }) => length >= minNationalDigits);
  if (national.length === 0) return null;
  const numbers = national.flatMap((number) => [number, `${number}0`]);
  return sql`reversed_digits(phone) = any(${numbers}::text[])`;
}
