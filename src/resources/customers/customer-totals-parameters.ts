import sql, { type Sql } from 'sql-template-tag';
import { z } from 'zod';
import { formatInstant } from '../../domain/instant.ts';
import { conditionsOf, type FilterConditions } from '../../domain/purchase-query.ts';
import { cents, count, instant } from '../../http/request/parameters.ts';

/**
 * Filters by the stored totals of customers, such as those who bought twice and not for ninety days. An
 * addition to the specification.
 */
export const customerTotalsParameters = {
  total_orders_min: count().optional(),
  total_orders_max: count().optional(),
  total_spent_min_in_cents: cents().optional(),
  total_spent_max_in_cents: cents().optional(),
  first_purchase_since: instant('lower').optional(),
  first_purchase_until: instant('upper').optional(),
  last_purchase_since: instant('lower').optional(),
  last_purchase_until: instant('upper').optional(),
};

const parameters = z.object(customerTotalsParameters);
type CustomerTotalsQuery = z.output<typeof parameters>;

/** All of columns that the indexes of lists of customers include (schema/constraints.sql). */
export const totalsConditions = (query: CustomerTotalsQuery): Sql[] =>
  conditionsOf<Sql, CustomerTotalsQuery>(query, conditions);

const conditions: FilterConditions<Sql, CustomerTotalsQuery> = {
  total_orders_min: (value) => sql`customers.total_orders >= ${value}`,
  total_orders_max: (value) => sql`customers.total_orders <= ${value}`,
  total_spent_min_in_cents: (value) => sql`customers.total_spent_in_cents >= ${value}`,
  total_spent_max_in_cents: (value) => sql`customers.total_spent_in_cents <= ${value}`,
  first_purchase_since: (value) => sql`customers.first_purchase_date >= ${instantOf(value)}`,
  first_purchase_until: (value) => sql`customers.first_purchase_date <= ${instantOf(value)}`,
  last_purchase_since: (value) => sql`customers.last_purchase_date >= ${instantOf(value)}`,
  last_purchase_until: (value) => sql`customers.last_purchase_date <= ${instantOf(value)}`,
};

const instantOf = (instant: bigint): Sql => sql`${formatInstant(instant)}::timestamptz`;
