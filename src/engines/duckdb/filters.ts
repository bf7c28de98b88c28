import type { DuckDBConnection } from '@duckdb/node-api';
import { DuckDBTimestampValue } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import type { PurchaseLabel } from '../../domain/purchase.ts';
import { conditionsOf, type PurchaseFilters, textFilters } from '../../domain/purchase-query.ts';
import { labelKey, noLabel } from '../../purchase-store/format/layout.ts';
import { filterConditions, isAnyOf } from '../filter-conditions.ts';
import type { LabelCache, WantedValues } from './serving/label-cache.ts';

/**
 * The condition of matching purchases, for lists and statistics. Null if no value of a filter is in
 * a dictionary: then no purchase matches, and the query needs no scan.
 */
export async function purchasesMatching(
  connection: DuckDBConnection,
  labels: Pick<LabelCache, 'findKeys'>,
  filters: PurchaseFilters,
): Promise<Sql | null> {
  const filtered = labelsIn(filters);
  const keys = await labels.findKeys(connection, filtered);
  if (keys.size < filtered.size) return null;
  const ofKeys = {
    hasAnyOf: (label: PurchaseLabel) =>
      isAnyOf(raw(labelKey(label)), keys.get(label)?.map((key) => sql`${key}::integer`) ?? []),
    hasNone: (label: PurchaseLabel) => raw(`${labelKey(label)} = ${noLabel}`),
  };
  const instant = (microseconds: bigint) => sql`${new DuckDBTimestampValue(microseconds)}`;
  const conditions = conditionsOf(filters, filterConditions(instant, ofKeys));
  return conditions.length === 0 ? sql`true` : join(conditions, ' and ');
}

function labelsIn(filters: PurchaseFilters): WantedValues {
  const wanted = new Map<PurchaseLabel, readonly string[]>();
  if (filters.paymentStatuses !== undefined) wanted.set('payment_status', filters.paymentStatuses);
  if (filters.platforms !== undefined) wanted.set('platform', filters.platforms);
  for (const label of textFilters) {
    const values = filters[label];
    if (values !== undefined) wanted.set(label, values);
  }
  return wanted;
}
