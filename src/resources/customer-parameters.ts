import sql, { type Sql } from 'sql-template-tag';
import { z } from 'zod';
import { formatInstant } from '../domain/instant.ts';
import { boolean, id, instant, oneOf, pageParameters, text } from '../http/request/parameters.ts';
import { byCreation, byTotalSpent, byUpdate } from '../postgres/keyset-list.ts';
import type { KeysetList, KeysetOrder, Link } from '../postgres/keyset-statement.ts';

const phoneLengths = { least: 3, most: 32 };

/** The most digits that a country code has. */
const maxCountryCodeDigits = 3;
/** A number with fewer digits may lack more than its country code, so it matches as a whole only. */
const minNationalDigits = 8;

/** A phone number's digits: how it is punctuated does not matter. */
const phone = text(phoneLengths)
  .refine((value) => /[0-9]/.test(value), 'must contain a digit')
  .transform((value) => value.replace(/[^0-9]/g, ''))
  .meta({
    type: 'string',
    minLength: phoneLengths.least,
    maxLength: phoneLengths.most,
    pattern: '[0-9]',
  });

/** Section 4.3, under the names that DESIGN gives what the specification leaves unnamed. */
export const customerListParameters = z.strictObject({
  ...pageParameters('customer'),
  sort: oneOf(['updated', 'total_spent']).optional(),
  is_subscribed: boolean().optional(),
  updated_since: instant('lower').optional(),
  created_since: instant('lower').optional(),
  created_until: instant('upper').optional(),
  email: text({ least: 1, most: 320 }).optional(),
  phone: phone.optional(),
  tag_id: id('tag').optional(),
  segment_id: id('segment').optional(),
  q: text({ least: 1, most: 256 }).optional(),
});
type Given = z.output<typeof customerListParameters>;

/** The customers that a request asks for, as a list that Postgres can walk. */
export function customersAskedFor(
  given: Given,
  organizationId: bigint,
): Pick<KeysetList, 'organizationId' | 'order' | 'conditions' | 'linkedTo' | 'search'> {
  const { linkedTo, others } = withoutLink(given);
  return {
    organizationId,
    order: orders[given.sort ?? 'created'],
    linkedTo,
    conditions: filterConditions(others, organizationId),
    search: given.q,
  };
}

/** The link along which the list is walked; a second one is a filter like others. */
function withoutLink({ tag_id, segment_id, ...others }: Given): {
  readonly linkedTo?: Link;
  readonly others: Omit<Given, 'tag_id'>;
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

type Filter = Exclude<keyof Given, 'limit' | 'starting_after' | 'sort' | 'tag_id' | 'q'>;

/** One condition per filter: leaving out a filter's SQL is a compile error. */
const conditions: {
  readonly [Name in Filter]: (value: NonNullable<Given[Name]>, organizationId: bigint) => Sql;
} = {
  is_subscribed: (value) => sql`is_subscribed = ${value}`,
  updated_since: (value) => sql`updated_at >= ${formatInstant(value)}::timestamptz`,
  created_since: (value) => sql`created_at >= ${formatInstant(value)}::timestamptz`,
  created_until: (value) => sql`created_at <= ${formatInstant(value)}::timestamptz`,
  email: (value) => sql`lower(email) = lower(${value})`,
  phone: hasPhone,
  segment_id: belongToSegment,
};

function filterConditions(given: Omit<Given, 'tag_id'>, organizationId: bigint): Sql[] {
  return Object.entries(conditions)
    .filter(([name]) => given[name as Filter] !== undefined)
    .map(([name, condition]) =>
      (condition as (value: unknown, organizationId: bigint) => Sql)(
        given[name as Filter],
        organizationId,
      ),
    );
}

/**
 * Whether the stored number has these digits, or one of the two has a country code before them
 * that the other lacks. Digits are compared last one first, as in the index.
 */
function hasPhone(digits: string): Sql {
  const reversed = [...digits].reverse().join('');
  const withoutCode = Array.from({ length: maxCountryCodeDigits }, (_, index) =>
    reversed.slice(0, -1 - index),
  ).filter((national) => national.length >= minNationalDigits);
  const isEqual = sql`reversed_digits(phone) = any(${[reversed, ...withoutCode]}::text[])`;
  if (digits.length < minNationalDigits) return isEqual;
  const maxDigits = digits.length + maxCountryCodeDigits;
  return sql`(${isEqual} or (
    reversed_digits(phone) like ${`${reversed}%`}
    and length(reversed_digits(phone)) <= ${maxDigits}))`;
}

/** Customers in a segment of the organization's. */
function belongToSegment(segmentId: bigint, organizationId: bigint): Sql {
  return sql`
    exists (select from segments where id = ${segmentId} and organization_id = ${organizationId})
    and exists (
      select from segment_customers
      where segment_id = ${segmentId} and customer_id = customers.id)`;
}
