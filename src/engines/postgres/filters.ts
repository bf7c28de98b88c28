import sql, { join, type Sql } from 'sql-template-tag';
import { formatInstant } from '../../domain/instant.ts';
import { intervalLengths } from '../../domain/period.ts';
import { conditionsOf, type PurchaseFilters } from '../../domain/purchase-query.ts';
import { filterConditions } from '../filter-conditions.ts';
import { couponConditions } from './coupons.ts';
import { localUnits } from './local-units.ts';

const conditions = filterConditions({
  instant: (instant) => sql`${formatInstant(instant)}::timestamptz`,
  localUnits: (offsets, unit) => localUnits(offsets, intervalLengths[unit]),
  coupons: couponConditions,
});

/** The condition of the organization's matching purchases, for lists and statistics. */
export function purchasesMatching(organizationId: bigint, filters: PurchaseFilters): Sql {
  return join(
    [sql`organization_id = ${organizationId}`, ...conditionsOf(filters, conditions)],
    ' and ',
  );
}
