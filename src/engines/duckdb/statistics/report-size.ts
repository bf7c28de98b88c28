import type { DuckDBConnection } from '@duckdb/node-api';
import sql from 'sql-template-tag';
import { maxPeriods } from '../../../domain/period-limit.ts';
import { labelOfDimension } from '../../../domain/purchase-query.ts';
import {
  isPeriodDimension,
  type ReportDimension,
  TooManyGroupsError,
} from '../../../domain/purchase-report.ts';
import { queryRows } from '../../../duckdb/connection.ts';
import { customerDictionary, labelDictionary } from '../../../purchase-store/format/layout.ts';
import { dictionaryEntries } from '../../../purchase-store/format/relations.ts';
import type { SideQuery } from '../../report/report-reader.ts';
import { type Generation, purchasesWithin, timeBounds } from '../serving/generation.ts';

/**
 * Throws TooManyGroupsError if a report can have more than `max` groups in memory. A customer who is
 * counted in a group is one too. There are no more than purchases within the bounds, and no more than
 * the dimensions have combinations.
 */
export async function requireFewGroups(
  connection: DuckDBConnection,
  generation: Generation,
  { filters, dimensions, sums }: SideQuery,
  max: number,
): Promise<void> {
  const purchases = purchasesWithin(generation.summary, timeBounds(generation.summary, filters));
  if (dimensions.length === 0 || purchases <= max) return;
  const keys = new Set(sums.customers ? [...dimensions, 'customer' as const] : dimensions);
  let combinations = 1;
  for (const key of keys) combinations *= await valuesOf(connection, generation, key);
  const count = Math.min(purchases, combinations);
  if (count > max) throw new TooManyGroupsError(Math.round(count), max);
}

/** The most values that a dimension can have, with the missing one. */
async function valuesOf(
  connection: DuckDBConnection,
  { catalogs }: Generation,
  dimension: ReportDimension,
): Promise<number> {
  if (isPeriodDimension(dimension)) return maxPeriods;
  if (dimension === 'customer_type') return 2;
  if (dimension === 'weekday') return 7;
  if (dimension === 'hour_of_day') return 24;
  const dictionary =
    dimension === 'customer' ? customerDictionary : labelDictionary(labelOfDimension(dimension));
  const entries = dictionaryEntries(catalogs, dictionary);
  const [row] = await queryRows(connection, sql`select count(*) from ${entries}`);
  return Number(row?.[0]) + 1;
}
