import type { DuckDBConnection } from '@duckdb/node-api';
import type { LRUCache } from 'lru-cache';
import sql, { raw } from 'sql-template-tag';
import type { PurchaseSums, PurchaseTotals } from '../../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import { queryRows } from '../../duckdb/connection.ts';
import type { StoreCatalogs } from '../../purchase-store/relations.ts';
import { createBoundedCache } from './bounded-cache.ts';
import { createFileLabels, createLabelCache, type FileLabels, type LabelCache } from './labels.ts';

/** An attached base and delta. Their content never changes. */
export type Generation = {
  readonly catalogs: StoreCatalogs;
  readonly labels: LabelCache;
  readonly summary: GenerationSummary;
  readonly ofBase: BaseCache;
  /** Purchases that ended a page, for the next page; by id. */
  readonly cursors: LRUCache<bigint, Cursor>;
  /** Of all purchases, after the first query for them. */
  sums: SumsByCurrency | null;
  /** The unfiltered totals, after the first query for them. */
  totals: PurchaseTotals | null;
};

/** The place of a purchase in lists. Microseconds since 1970. */
export type Position = { readonly id: bigint; readonly createdAt: bigint };

/** The purchase before a page. */
export type Cursor = Position & {
  /** The time span of the page that the purchase ended, in microseconds; 0 if it is not known. */
  readonly pageSpan: bigint;
};

/** By the key of the currency. */
export type SumsByCurrency = ReadonlyMap<number, PurchaseSums>;

/** Values that queries have read from a base, for all generations that share it. Null before that. */
export type BaseCache = {
  readonly labels: FileLabels;
  sums: SumsByCurrency | null;
  customers: BaseCustomers | null;
};

/** The customers of all purchases of a base. */
export type BaseCustomers = {
  readonly count: bigint;
  /** -1 without customers. */
  readonly greatestKey: number;
  /** Some customers of the dictionary have no purchase in the base. */
  readonly hasUnused: boolean;
};

export const createBaseCache = (): BaseCache => ({
  labels: createFileLabels(),
  sums: null,
  customers: null,
});

/** Aggregates that DuckDB reads without a scan of the base when the files are attached. */
export type GenerationSummary = {
  readonly purchases: number;
  /** No `created_at` is earlier or later; microseconds since 1970. */
  readonly first: bigint;
  readonly last: bigint;
};

/** Reads the summary of files that are attached already. */
export async function createGeneration(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  ofBase = createBaseCache(),
): Promise<Generation> {
  const { base, delta } = catalogs;
  const bounds = raw('min(created_at) as first, max(created_at) as last');
  const [row] = await queryRows(
    connection,
    sql`
      select sum(purchases)::bigint,
        coalesce(epoch_us(min(first)), 0), coalesce(epoch_us(max(last)), 0)
      from (
        select count(*) as purchases, ${bounds} from ${raw(base)}.purchase
        union all
        select sum(sign), ${bounds} from ${raw(delta)}.change where sign <> 0
      )`,
  );
  const [purchases, first, last] = row as [bigint, bigint, bigint];
  const summary = { purchases: Number(purchases), first, last };
  const labels = createLabelCache(catalogs, ofBase.labels);
  const cursors = createBoundedCache<bigint, Cursor>(maxCachedCursors);
  return { catalogs, labels, summary, ofBase, cursors, sums: null, totals: null };
}

const maxCachedCursors = 1_000;

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
