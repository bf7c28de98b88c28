import sql, { empty, raw, type Sql } from 'sql-template-tag';
import { intervalLengths, periodOffsets } from '../../../domain/period.ts';
import type { PurchaseFilters } from '../../../domain/purchase-query.ts';
import type { QueryContext } from '../query-context.ts';
import { type GenerationSummary, purchasesWithin, timeBounds } from '../serving/generation.ts';
import { isSparse, localUnits, unitKey } from './local-time.ts';
import { joinPeriods } from './period-tables.ts';

/** The SQL expressions that group purchases by day. */
export type DayGrouping = {
  /** The day of a row. */
  readonly key: Sql;
  /** A join of the tables of purchases, which `key` needs. */
  readonly joined: Sql;
  /** The date of the day `key`. */
  readonly date: Sql;
};

/**
 * Groups matching purchases by day, in UTC or in a time zone. DuckDB's own time zones take
 * thirty times as long as these offsets.
 */
export async function dayGrouping(
  summary: GenerationSummary,
  filters: PurchaseFilters,
  timeZone: string | undefined,
  { periodTables, shortcuts }: QueryContext,
): Promise<DayGrouping> {
  const bounds = timeBounds(summary, filters);
  const { day } = intervalLengths;
  // A filter does not narrow the bounds that DuckDB knows of the delta.
  if (timeZone === undefined && !isSparse(timeBounds(summary, {}), day, shortcuts)) {
    return { key: sql`created_at::date`, joined: empty, date: sql`key` };
  }
  const calendar = { interval: 'day', timeZone } as const;
  const table = await periodTables.covering(calendar, bounds, purchasesWithin(summary, bounds));
  const date = sql`date '0001-01-01' + key`;
  if (table !== null) {
    return { key: raw('period'), joined: joinPeriods(table), date };
  }
  const offsets = await periodOffsets(calendar, bounds.since, bounds.until);
  return { key: unitKey(localUnits(offsets, day), day, bounds, shortcuts), joined: empty, date };
}
