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
import { customerTotalsParameters, totalsConditions } from './customer-totals-parameters.ts';

const phoneLength = { min: 3, max: 32 };

const maxCountryCodeDigits = 3;
/** Shorter numbers may lack more than a country code, so only the whole number matches. */
const minNationalDigits = 8;

/** The digits of a phone number, without punctuation. */
const phone = text(phoneLength)
  .refine((value) => /[0-9]/.test(value), 'must contain a digit')
  .transform((value) => value.replace(/[^0-9]/g, ''))
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
  return {
    organizationId,
    order: orders[query.sort ?? 'created'],
    linkedTo,
    conditions: conditionsOf<Sql, CustomerFilters>(others, filterConditions(organizationId)),
    includedConditions: includedConditions(others),
    search: query.q === undefined ? undefined : withPlus(query.q),
  };
}

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
  phone: hasPhone,
  ids: (value) => sql`customers.id = any(${value.map(String)}::bigint[])`,
  segment_id: (value) => isInSegment(value, organizationId),
});

const includedConditions = (query: Omit<CustomerFilterQuery, 'tag_id'>): Sql[] => [
  ...(query.is_subscribed === undefined
    ? []
    : [sql`customers.is_subscribed = ${query.is_subscribed}`]),
  ...totalsConditions(query),
];

/** Whether the stored number has these digits, also if one of the two begins with a trunk zero. */
function hasPhone(digits: string): Sql {
  const hasTrunkZero = /^0[1-9]/.test(digits) && digits.length > minNationalDigits;
  if (!hasTrunkZero) return isSameNumber(digits);
  return sql`(${isSameNumber(digits)} or ${isSameNumber(digits.slice(1))})`;
}

/**
 * Whether the stored number has these digits, or only one of the two numbers has a country code. The
 * index contains reversed digits.
 */
function isSameNumber(digits: string): Sql {
  const reversed = [...digits].reverse().join('');
  const withoutCode = Array.from({ length: maxCountryCodeDigits }, (_, index) =>
    reversed.slice(0, -1 - index),
  ).filter((national) => national.length >= minNationalDigits);
  const withTrunkZero = withoutCode.map((national) => `${national}0`);
  const equal = [reversed, ...withoutCode, ...withTrunkZero];
  const isEqual = sql`reversed_digits(phone) = any(${equal}::text[])`;
  if (digits.length < minNationalDigits) return isEqual;
  const maxDigits = digits.length + maxCountryCodeDigits;
  return sql`(${isEqual} or (
    reversed_digits(phone) like ${`${reversed}%`}
    and length(reversed_digits(phone)) <= ${maxDigits}))`;
}

/** Also checks that the segment is the organization's. */
function isInSegment(segmentId: bigint, organizationId: bigint): Sql {
  return sql`
    exists (select from segments where id = ${segmentId} and organization_id = ${organizationId})
    and exists (
      select from segment_customers
      where segment_id = ${segmentId} and customer_id = customers.id)`;
}
