import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { join, raw } from 'sql-template-tag';
import { type PurchaseLabel, purchaseLabels } from '../../domain/purchase.ts';
import type { PurchaseTotals } from '../../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import { queryRows } from '../../duckdb/connection.ts';
import { labelTable } from '../../purchase-store/layout.ts';

/** A file as queries see it: attached under `catalog`, never changing. */
export type Generation = {
  readonly catalog: string;
  readonly labels: LabelCache;
  readonly extent: Extent;
  /** The statistics of all purchases, once somebody has asked for them. */
  totals: PurchaseTotals | null;
};

/** What of a file is known before any question: DuckDB tells it without a scan. */
export type Extent = {
  readonly purchases: number;
  /** When the first and the last were created; microseconds since 1970. */
  readonly first: bigint;
  readonly last: bigint;
  /** The currency that every single purchase has; null where there is no such one. */
  readonly currency: string | null;
};

/** When what the filters leave can have been created; `since` is after `until` where nothing can. */
export function stretchOf(
  { first, last }: Extent,
  { createdSince = first, createdUntil = last }: PurchaseFilters,
): { readonly since: bigint; readonly until: bigint } {
  return {
    since: createdSince > first ? createdSince : first,
    until: createdUntil < last ? createdUntil : last,
  };
}

/**
 * The values behind label keys, as far as they were asked for. Joining ten
 * dictionaries to a page takes DuckDB several times as long as reading the page
 * does; and pages show the same few values again and again.
 */
export type LabelCache = {
  /** The values of these keys; asks the file for those that are not remembered. */
  lookUp(connection: DuckDBConnection, keys: LabelKeys): Promise<LabelValues>;
};

export type LabelKeys = ReadonlyMap<PurchaseLabel, ReadonlySet<number>>;
export type LabelValues = (label: PurchaseLabel, key: number) => string;

// Of each label, some megabytes at the very most.
const mostRemembered = 20_000;

/** Of a file that is attached already. */
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
        from ${raw(catalog)}.purchase) as extent
      left join ${raw(catalog)}.label_currency using (key)`,
  );
  const [purchases, first, last, currency] = row as [bigint, bigint, bigint, string | null];
  const extent = { purchases: Number(purchases), first, last, currency };
  return { catalog, labels: createLabelCache(catalog), extent, totals: null };
}

function createLabelCache(catalog: string): LabelCache {
  const remembered = new Map(purchaseLabels.map((label) => [label, new Map<number, string>()]));
  const rememberedOf = (label: PurchaseLabel) => remembered.get(label) as Map<number, string>;

  return {
    async lookUp(connection, keys) {
      // The answer's own: others may make room in what is remembered meanwhile.
      const values = new Map<string, string>();
      const lookups = [...keys].flatMap(([label, wanted]) => {
        const missing: number[] = [];
        for (const key of wanted) {
          const value = rememberedOf(label).get(key);
          if (value === undefined) missing.push(key);
          else values.set(`${label} ${key}`, value);
        }
        return missing.length === 0 ? [] : [lookUpStatement(catalog, label, missing)];
      });
      const rows =
        lookups.length === 0 ? [] : await queryRows(connection, join(lookups, ' union all '));
      for (const [label, key, value] of rows) {
        const known = rememberedOf(label as PurchaseLabel);
        if (known.size >= mostRemembered) known.clear();
        known.set(key as number, value as string);
        values.set(`${label} ${key}`, value as string);
      }
      return (label, key) => {
        const value = values.get(`${label} ${key}`);
        if (value === undefined) throw new Error(`${labelTable(label)} has no key ${key}`);
        return value;
      };
    },
  };
}

function lookUpStatement(catalog: string, label: PurchaseLabel, keys: readonly number[]) {
  const list = join(keys.map((key) => sql`${key}::integer`));
  const table = raw(`${catalog}.${labelTable(label)}`);
  return sql`select ${label}::varchar, key, value from ${table} where key in (${list})`;
}
