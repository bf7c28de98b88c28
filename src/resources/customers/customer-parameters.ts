import sql, { type Sql } from 'sql-template-tag';
import { z } from 'zod';
import { formatInstant } from '../../domain/instant.ts';
import { conditionsOf, type FilterConditions, pageLimits } from '../../domain/purchase-query.ts';
import { formatNames } from '../../http/formats/negotiation.ts';
import { formatParameters } from '../../http/request/format-parameters.ts';
import {
  boolean,
  commaLists,
  id,
  instant,
  oneOf,
  pageParameters,
  text,
} from '../../http/request/parameters.ts';
import { byCreation, byTotalSpent, byUpdate } from '../../postgres/lists/keyset-list.ts';
import type { KeysetList, KeysetOrder, Link } from '../../postgres/lists/keyset-statement.ts';
import { digitSearch, eitherOf, type Search, textSearch } from '../../postgres/lists/search.ts';
import { customerTotalsParameters, totalsConditions } from './customer-totals-parameters.ts';

const phoneLength = { min: 3, max: 32 };

const digitsOf = (text: string): string => text.replace(/[^0-9]/g, '');

/** The digits of a phone number, without punctuation. */
const phone = text(phoneLength)
  .refine((value) => /[0-9]/.test(value), 'must contain a digit')
  .transform(digitsOf)
  .meta({
    type: 'string',
    minLength: phoneLength.min,
    maxLength: phoneLength.max,
    pattern: '[0-9]',
  });

/** Ids with commas between them, as many as a page can have. An addition to the specification. */
const ids = text({ min: 1, max: 4096 })
  .transform((value) => value.split(','))
  .pipe(
    z
      .array(id('customer', 'must be ids that begin with cus_, with commas between them'))
      .max(pageLimits.max, `must have at most ${pageLimits.max} ids`),
  )
  .meta({ type: 'string', minLength: 1, maxLength: 4096 })
  .register(commaLists, { max: pageLimits.max });

/** Section 4.3. */
export const customerFilterParameters = {
  is_subscribed: boolean().optional(),
  updated_since: instant('lower').optional(),
  created_since: instant('lower').optional(),
  created_until: instant('upper').optional(),
  email: text({ min: 1, max: 320 }).optional(),
  phone: phone.optional(),
  tag_id: id('tag').optional(),
  segment_id: id('segment').optional(),
  q: text({ min: 1, max: 256 }).optional(),
  ids: ids.optional(),
  ...customerTotalsParameters,
};

export const customerListParameters = z.strictObject({
  ...pageParameters('customer'),
  sort: oneOf(['updated', 'total_spent']).optional(),
  ...customerFilterParameters,
  ...formatParameters(formatNames),
});
const filterParameters = z.object(customerFilterParameters);
type CustomerFilterQuery = z.output<typeof filterParameters>;
type CustomerListQuery = CustomerFilterQuery &
  Pick<z.output<typeof customerListParameters>, 'sort'>;

export function customerList(
  query: CustomerListQuery,
  organizationId: bigint,
): Omit<KeysetList, 'table' | 'selectList' | 'limit' | 'startingAfter'> {
  const { linkedTo, others } = withoutLink(query);
  // Without a text, the number is searched: a condition might read all customers.
  const filters = query.q === undefined ? { ...others, phone: undefined } : others;
  return {
    organizationId,
    order: orders[query.sort ?? 'created'],
    linkedTo,
    conditions: conditionsOf<Sql, CustomerFilters>(filters, filterConditions(organizationId)),
    includedConditions: includedConditions(others),
    search: searchOf(query),
  };
}

/** Of both, the text is searched, and the number is a filter. */
function searchOf({ q, phone }: CustomerListQuery): Search | undefined {
  if (q === undefined) return phone === undefined ? undefined : phoneSearch(phone);
  const text = withPlus(q);
  return isNumber(text)
    ? eitherOf(textSearch(text), phoneSearch(digitsOf(text)))
    : textSearch(text);
}

/** Whether a text may be a part of a phone number, however it is punctuated. */
const isNumber = (text: string): boolean =>
  /^[\d\s()+./-]+$/.test(text) && digitsOf(text).length >= phoneLength.min;

/**
 * A plus that is not encoded arrives as a space. It is one before a phone number, and between the words
 * before an @.
 */
const withPlus = (text: string): string =>
  /^( \d[\d ().-]+|[^\s@]+ [^\s@]+@\S*)$/.test(text) ? text.replace(' ', '+') : text;

/** The tag or segment whose index the list follows. If there are both, the segment is a filter. */
function withoutLink({ tag_id, segment_id, ...others }: CustomerListQuery): {
  readonly linkedTo?: Link;
  readonly others: Omit<CustomerListQuery, 'tag_id'>;
} {
  if (tag_id !== undefined) {
    return { linkedTo: { relation: 'tag', id: tag_id }, others: { ...others, segment_id } };
  }
  if (segment_id !== undefined) {
    return { linkedTo: { relation: 'segment', id: segment_id }, others };
  }
  return { others };
}

const orders = {
  created: byCreation,
  updated: byUpdate,
  total_spent: byTotalSpent,
} as const satisfies Record<string, KeysetOrder>;

type CustomerFilters = Omit<
  CustomerFilterQuery,
  'tag_id' | 'q' | 'is_subscribed' | keyof typeof customerTotalsParameters
>;

const filterConditions = (organizationId: bigint): FilterConditions<Sql, CustomerFilters> => ({
  updated_since: (value) => sql`updated_at >= ${formatInstant(value)}::timestamptz`,
  created_since: (value) => sql`created_at >= ${formatInstant(value)}::timestamptz`,
  created_until: (value) => sql`created_at <= ${formatInstant(value)}::timestamptz`,
  // A plus that is not encoded arrives as a space, which no address has.
  email: (value) => sql`lower(email) = lower(${value.replaceAll(' ', '+')})`,
  phone: (digits) => phoneSearch(digits).matches,
  ids: (value) => sql`customers.id = any(${value.map(String)}::bigint[])`,
  segment_id: (value) => isInSegment(value, organizationId),
});

const includedConditions = (query: Omit<CustomerFilterQuery, 'tag_id'>): Sql[] => [
  ...(query.is_subscribed === undefined
    ? []
    : [sql`customers.is_subscribed = ${query.is_subscribed}`]),
  ...totalsConditions(query),
];

/** Also checks that the segment is the organization's. */
function isInSegment(segmentId: bigint, organizationId: bigint): Sql {
  return sql`
    exists (select from segments where id = ${segmentId} and organization_id = ${organizationId})
    and exists (
      select from segment_customers
      where segment_id = ${segmentId} and customer_id = customers.id)`;
}

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
