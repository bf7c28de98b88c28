import sql, { raw, type Sql } from 'sql-template-tag';
import type { PurchaseLabel } from '../domain/purchase.ts';
import type { FilterConditions } from '../domain/purchase-query.ts';

/**
 * The conditions of filters on columns named as in Postgres. `instant` turns an instant into SQL,
 * and `hasLabel` a label and its value.
 */
export const filterConditions = (
  instant: (microseconds: bigint) => Sql,
  hasLabel = (label: PurchaseLabel, value: string): Sql => sql`${raw(label)} = ${value}`,
): FilterConditions<Sql> => ({
  customerId: (id) => sql`customer_id = ${id}`,
  paymentStatus: (status) => hasLabel('payment_status', status),
  platform: (platform) => hasLabel('platform', platform),
  createdSince: (since) => sql`created_at >= ${instant(since)}`,
  createdUntil: (until) => sql`created_at <= ${instant(until)}`,
  minValueInCents: (cents) => sql`purchase_value_in_cents >= ${cents}`,
  maxValueInCents: (cents) => sql`purchase_value_in_cents <= ${cents}`,
  utm_source: (value) => hasLabel('utm_source', value),
  utm_medium: (value) => hasLabel('utm_medium', value),
  utm_campaign: (value) => hasLabel('utm_campaign', value),
  utm_content: (value) => hasLabel('utm_content', value),
  utm_term: (value) => hasLabel('utm_term', value),
});
