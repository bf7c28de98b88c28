import type { DuckDBConnection } from '@duckdb/node-api';
import { DuckDBTimestampValue } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import { type PurchaseLabel, trackingLabels } from '../../domain/purchase.ts';
import { conditionsOf, type PurchaseFilters } from '../../domain/purchase-query.ts';
import { labelKey } from '../../purchase-store/format/layout.ts';
import { filterConditions } from '../filter-conditions.ts';
import type { LabelCache, WantedValues } from './serving/label-cache.ts';

/**
 * The condition of matching purchases, for lists and statistics. Null if a filter's value is in
 * no dictionary: then no purchase matches, and the query needs no scan.
 */
export async function purchasesMatching(
  connection: DuckDBConnection,
  labels: Pick<LabelCache, 'findKeys'>,
  filters: PurchaseFilters,
): Promise<Sql | null> {
  const filtered = labelsIn(filters);
  const keys = await labels.findKeys(connection, filtered);
  if (keys.size < filtered.size) return null;
  const hasLabel = (label: PurchaseLabel) =>
    sql`${raw(labelKey(label))} = ${keys.get(label)}::integer`;
  const instant = (microseconds: bigint) => sql`${new DuckDBTimestampValue(microseconds)}`;
  const conditions = conditionsOf(filters, filterConditions(instant, hasLabel));
  return conditions.length === 0 ? sql`true` : join(conditions, ' and ');
}

function labelsIn(filters: PurchaseFilters): WantedValues {
  const filtered: [PurchaseLabel, string | undefined][] = [
    ['payment_status', filters.paymentStatus],
    ['platform', filters.platform],
    ...trackingLabels.map((label): [PurchaseLabel, string | undefined] => [label, filters[label]]),
  ];
  return new Map(
    filtered.flatMap(([label, value]) => (value === undefined ? [] : [[label, value] as const])),
  );
}
