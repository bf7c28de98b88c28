import sql, { type Sql } from 'sql-template-tag';
import type { FilterConditions } from '../domain/purchase-query.ts';

/** The conditions of filters on columns named as in Postgres. `instant` turns an instant into SQL. */
export const columnConditions = (
  instant: (microseconds: bigint) => Sql,
): FilterConditions<Sql> => ({
  customerId: (id) => sql`customer_id = ${id}`,
  paymentStatus: (status) => sql`payment_status = ${status}`,
  platform: (platform) => sql`platform = ${platform}`,
  createdSince: (since) => sql`created_at >= ${instant(since)}`,
  createdUntil: (until) => sql`created_at <= ${instant(until)}`,
  minValueInCents: (cents) => sql`purchase_value_in_cents >= ${cents}`,
  maxValueInCents: (cents) => sql`purchase_value_in_cents <= ${cents}`,
  utm_source: (value) => sql`utm_source = ${value}`,
  utm_medium: (value) => sql`utm_medium = ${value}`,
  utm_campaign: (value) => sql`utm_campaign = ${value}`,
  utm_content: (value) => sql`utm_content = ${value}`,
  utm_term: (value) => sql`utm_term = ${value}`,
});
