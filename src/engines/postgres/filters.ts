import sql, { join, raw, type Sql } from 'sql-template-tag';
import { earliestInstant, formatInstant } from '../../domain/instant.ts';
import { intervalLengths } from '../../domain/period.ts';
import { conditionsOf, type PurchaseFilters } from '../../domain/purchase-query.ts';
import type { ZoneOffset } from '../../domain/time-zone.ts';
import { microsecondsOf } from '../../postgres/lists/instants.ts';
import { filterConditions } from '../filter-conditions.ts';
import { offsetExpression } from '../zone-offsets.ts';
import { couponConditions } from './coupons.ts';

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

/** The number of whole units (microseconds) of local time since 0001-01-01, as SQL. */
export function localUnits(offsets: readonly ZoneOffset[], unit: bigint): Sql {
  const offset = offsetExpression(offsets, isBefore);
  return sql`((${raw(microsecondsOf('created_at'))} + ${offset} - ${raw(`(${earliestInstant})`)})
    / ${raw(String(unit))})::integer`;
}

export const isBefore = (instant: bigint): Sql =>
  sql`created_at < ${formatInstant(instant)}::timestamptz`;
