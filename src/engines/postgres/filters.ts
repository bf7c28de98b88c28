import sql, { join, type Sql } from 'sql-template-tag';
import { formatInstant } from '../../domain/instant.ts';
import { conditionsOf, type PurchaseFilters } from '../../domain/purchase-query.ts';
import { filterConditions } from '../filter-conditions.ts';
import { couponConditions } from './coupons.ts';

const conditions = filterConditions(
  (instant) => sql`${formatInstant(instant)}::timestamptz`,
  couponConditions,
);

/** The condition of the organization's matching purchases, for lists and statistics. */
export function purchasesMatching(organizationId: bigint, filters: PurchaseFilters): Sql {
  return join(
    [sql`organization_id = ${organizationId}`, ...conditionsOf(filters, conditions)],
    ' and ',
  );
}
