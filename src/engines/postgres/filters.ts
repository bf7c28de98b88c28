import sql, { join, type Sql } from 'sql-template-tag';
import { formatInstant } from '../../domain/instant.ts';
import {
  conditionsOf,
  type FilterConditions,
  type PurchaseFilters,
} from '../../domain/purchase-query.ts';

const conditions: FilterConditions<Sql> = {
  customerId: (id) => sql`customer_id = ${id}`,
  paymentStatus: (status) => sql`payment_status = ${status}`,
  platform: (platform) => sql`platform = ${platform}`,
  createdSince: (instant) => sql`created_at >= ${formatInstant(instant)}::timestamptz`,
  createdUntil: (instant) => sql`created_at <= ${formatInstant(instant)}::timestamptz`,
  minValueInCents: (cents) => sql`purchase_value_in_cents >= ${cents}`,
  maxValueInCents: (cents) => sql`purchase_value_in_cents <= ${cents}`,
  utm_source: (value) => sql`utm_source = ${value}`,
  utm_medium: (value) => sql`utm_medium = ${value}`,
  utm_campaign: (value) => sql`utm_campaign = ${value}`,
  utm_content: (value) => sql`utm_content = ${value}`,
  utm_term: (value) => sql`utm_term = ${value}`,
};

/** The condition of the organization's matching purchases, for lists and statistics. */
export function purchasesMatching(organizationId: bigint, filters: PurchaseFilters): Sql {
  return join(
    [sql`organization_id = ${organizationId}`, ...conditionsOf(filters, conditions)],
    ' and ',
  );
}
