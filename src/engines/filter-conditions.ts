import sql, { join, raw, type Sql } from 'sql-template-tag';
import type { PurchaseLabel } from '../domain/purchase.ts';
import type { FilterConditions } from '../domain/purchase-query.ts';

/**
 * The conditions of filters on columns named as in Postgres. `instant` turns an instant into SQL,
 * and `hasAnyOf` a label and the values of which a purchase must have one.
 */
export const filterConditions = (
  instant: (microseconds: bigint) => Sql,
  hasAnyOf = (label: PurchaseLabel, values: readonly string[]): Sql =>
    isAnyOf(
      raw(label),
      values.map((value) => sql`${value}`),
    ),
): FilterConditions<Sql> => ({
  customerId: (id) => sql`customer_id = ${id}`,
  paymentStatuses: (statuses) => hasAnyOf('payment_status', statuses),
  platforms: (platforms) => hasAnyOf('platform', platforms),
  createdSince: (since) => sql`created_at >= ${instant(since)}`,
  createdUntil: (until) => sql`created_at <= ${instant(until)}`,
  minValueInCents: (cents) => sql`purchase_value_in_cents >= ${cents}`,
  maxValueInCents: (cents) => sql`purchase_value_in_cents <= ${cents}`,
  utm_source: (value) => hasAnyOf('utm_source', [value]),
  utm_medium: (value) => hasAnyOf('utm_medium', [value]),
  utm_campaign: (value) => hasAnyOf('utm_campaign', [value]),
  utm_content: (value) => hasAnyOf('utm_content', [value]),
  utm_term: (value) => hasAnyOf('utm_term', [value]),
});

/** Not IN: DuckDB turns six values into a join, and a page then reads all row groups instead of the newest ones. */
export function isAnyOf(column: Sql, values: readonly Sql[]): Sql {
  const equal = values.map((value) => sql`${column} = ${value}`);
  return equal.length === 1 ? (equal[0] as Sql) : sql`(${join(equal, ' or ')})`;
}
