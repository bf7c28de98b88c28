import type { DuckDBConnection } from '@duckdb/node-api';
import { DuckDBTimestampValue } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import { type PurchaseLabel, trackingLabels } from '../../domain/purchase.ts';
import { conditionsOf, type PurchaseFilters } from '../../domain/purchase-query.ts';
import { queryRows } from '../../duckdb/connection.ts';
import { labelDictionary, labelKey } from '../../purchase-store/layout.ts';
import { dictionaryEntries, type StoreCatalogs } from '../../purchase-store/relations.ts';
import { filterConditions } from '../filter-conditions.ts';

type LabelKeys = ReadonlyMap<string, number>;

/**
 * The condition of matching purchases, for lists and statistics. Null if a filter's value is in
 * no dictionary: then no purchase matches, and the query needs no scan.
 */
export async function purchasesMatching(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  filters: PurchaseFilters,
): Promise<Sql | null> {
  const labels = labelsIn(filters);
  const keys = await findKeys(connection, catalogs, labels);
  if (keys.size < labels.length) return null;
  const hasLabel = (label: PurchaseLabel) =>
    sql`${raw(labelKey(label))} = ${keys.get(label)}::integer`;
  const instant = (microseconds: bigint) => sql`${new DuckDBTimestampValue(microseconds)}`;
  const conditions = conditionsOf(filters, filterConditions(instant, hasLabel));
  return conditions.length === 0 ? sql`true` : join(conditions, ' and ');
}

function labelsIn(filters: PurchaseFilters): { label: PurchaseLabel; value: string }[] {
  const filtered: [PurchaseLabel, string | undefined][] = [
    ['payment_status', filters.paymentStatus],
    ['platform', filters.platform],
    ...trackingLabels.map((label): [PurchaseLabel, string | undefined] => [label, filters[label]]),
  ];
  return filtered.flatMap(([label, value]) => (value === undefined ? [] : [{ label, value }]));
}

async function findKeys(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  labels: readonly { label: PurchaseLabel; value: string }[],
): Promise<LabelKeys> {
  if (labels.length === 0) return new Map();
  const lookups = labels.map(
    ({ label, value }) =>
      sql`select ${label}::varchar, key from ${dictionaryEntries(catalogs, labelDictionary(label))} where value = ${value}`,
  );
  const rows = await queryRows(connection, join(lookups, ' union all '));
  return new Map(rows.map(([label, key]) => [String(label), Number(key)]));
}
