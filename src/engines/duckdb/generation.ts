import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import type { PurchaseTotals } from '../../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import { queryRows } from '../../duckdb/connection.ts';
import { createLabelCache, type LabelCache } from './labels.ts';

/** A file that is attached as `catalog`. Its content never changes. */
export type Generation = {
  readonly catalog: string;
  readonly labels: LabelCache;
  readonly summary: GenerationSummary;
  /** The unfiltered totals, after the first query for them. */
  totals: PurchaseTotals | null;
};

/** Aggregates that DuckDB reads without a scan when the file is attached. */
export type GenerationSummary = {
  readonly purchases: number;
  /** The least and greatest `created_at`; microseconds since 1970. */
  readonly first: bigint;
  readonly last: bigint;
  /** The currency of all purchases; null if there are several, or purchases without one. */
  readonly currency: string | null;
};

/** Reads the summary of a file that is attached already. */
export async function createGeneration(
  connection: DuckDBConnection,
  catalog: string,
): Promise<Generation> {
  const [row] = await queryRows(
    connection,
    sql`
      select purchases, coalesce(epoch_us(first), 0), coalesce(epoch_us(last), 0), value
      from (
        select count(*) as purchases, min(created_at) as first, max(created_at) as last,
          case when min(currency_key) = max(currency_key) then min(currency_key) end as key
        from ${raw(catalog)}.purchase) as summary
      left join ${raw(catalog)}.label_currency using (key)`,
  );
  const [purchases, first, last, currency] = row as [bigint, bigint, bigint, string | null];
  const summary = { purchases: Number(purchases), first, last, currency };
  return { catalog, labels: createLabelCache(catalog), summary, totals: null };
}

/** The range of `created_at` that matching purchases can have. No purchase matches if it is empty. */
export function timeBounds(
  { first, last }: GenerationSummary,
  { createdSince = first, createdUntil = last }: PurchaseFilters,
): { readonly since: bigint; readonly until: bigint } {
  return {
    since: createdSince > first ? createdSince : first,
    until: createdUntil < last ? createdUntil : last,
  };
}
