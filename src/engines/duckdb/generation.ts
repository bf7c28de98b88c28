import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import type { PurchaseSums, PurchaseTotals } from '../../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import { queryRows } from '../../duckdb/connection.ts';
import { labelDictionary } from '../../purchase-store/layout.ts';
import { dictionaryEntries, type StoreCatalogs } from '../../purchase-store/relations.ts';
import { createFileLabels, createLabelCache, type FileLabels, type LabelCache } from './labels.ts';

/** An attached base and delta. Their content never changes. */
export type Generation = {
  readonly catalogs: StoreCatalogs;
  readonly labels: LabelCache;
  readonly summary: GenerationSummary;
  readonly ofBase: BaseCache;
  /** The unfiltered totals, after the first query for them. */
  totals: PurchaseTotals | null;
};

/** Values that queries have read from a base, for all generations that share it. */
export type BaseCache = {
  readonly labels: FileLabels;
  /** Null before the first query for unfiltered totals. */
  totals: BaseTotals | null;
};

/** The totals of all purchases of a base. */
export type BaseTotals = {
  /** By the key of the currency. */
  readonly sums: ReadonlyMap<number, PurchaseSums>;
  readonly customers: bigint;
  /** The greatest key of a customer; -1 without customers. */
  readonly greatestCustomer: number;
  /** Some customers of the dictionary have no purchase in the base. */
  readonly hasUnusedCustomers: boolean;
};

export const createBaseCache = (): BaseCache => ({ labels: createFileLabels(), totals: null });

/** Aggregates that DuckDB reads without a scan of the base when the files are attached. */
export type GenerationSummary = {
  readonly purchases: number;
  /** No `created_at` is earlier or later; microseconds since 1970. */
  readonly first: bigint;
  readonly last: bigint;
  /** The currency of all purchases; null if there may be several, or purchases without one. */
  readonly currency: string | null;
};

/** Reads the summary of files that are attached already. */
export async function createGeneration(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  ofBase = createBaseCache(),
): Promise<Generation> {
  const { base, delta } = catalogs;
  const bounds = raw(`min(created_at) as first, max(created_at) as last,
      min(currency_key) as least_key, max(currency_key) as greatest_key`);
  const [row] = await queryRows(
    connection,
    sql`
      select purchases, coalesce(epoch_us(first), 0), coalesce(epoch_us(last), 0), value
      from (
        select sum(purchases)::bigint as purchases, min(first) as first, max(last) as last,
          case when min(least_key) = max(greatest_key) then min(least_key) end as key
        from (
          select count(*) as purchases, ${bounds} from ${raw(base)}.purchase
          union all
          select sum(sign), ${bounds} from ${raw(delta)}.change where sign <> 0
        )
      ) as summary
      left join ${dictionaryEntries(catalogs, labelDictionary('currency'))} using (key)`,
  );
  const [purchases, first, last, currency] = row as [bigint, bigint, bigint, string | null];
  const summary = { purchases: Number(purchases), first, last, currency };
  const labels = createLabelCache(catalogs, ofBase.labels);
  return { catalogs, labels, summary, ofBase, totals: null };
}

/** Microseconds since 1970. */
export type TimeBounds = { readonly since: bigint; readonly until: bigint };

/** The range of `created_at` that matching purchases can have. No purchase matches if it is empty. */
export function timeBounds(
  { first, last }: GenerationSummary,
  { createdSince = first, createdUntil = last }: PurchaseFilters,
): TimeBounds {
  return {
    since: createdSince > first ? createdSince : first,
    until: createdUntil < last ? createdUntil : last,
  };
}
