import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import type { PurchaseFilters } from '../../../domain/purchase-query.ts';
import { queryRows } from '../../../duckdb/connection.ts';
import { defaultShortcuts, type Shortcuts } from '../../../duckdb/shortcuts.ts';
import { type Applied, emptyBase, readApplied } from '../../../purchase-store/delta/delta.ts';
import type { Dictionary } from '../../../purchase-store/format/layout.ts';
import { creationQuarter } from '../../../purchase-store/format/quarter-hours.ts';
import type { StoreCatalogs } from '../../../purchase-store/format/relations.ts';
import {
  createFileLabels,
  createLabelCache,
  type FileLabels,
  type LabelCache,
} from './label-cache.ts';

/** A base, and a delta with a part of the log. */
export type Generation = {
  readonly catalogs: StoreCatalogs;
  readonly labels: LabelCache;
  readonly summary: GenerationSummary;
  readonly ofBase: BaseCache;
  /** The delta has no row but the placeholder. */
  readonly isUnchanged: boolean;
  /** At least the number of purchases that were changed or added since the base. */
  readonly changes: number;
  /** At least the number of keys of a dictionary, with that of a missing value. */
  readonly keyCounts: (dictionary: Dictionary) => number;
  /** Those that queries have read, by payment status (changed-firsts.ts). */
  readonly changedFirsts: Map<string, ChangedFirsts>;
};

/** How the first purchases of a version differ from those that its base tells, as ids. */
export type ChangedFirsts = {
  /** Of the changed purchases, those that are first ones. */
  readonly added: readonly bigint[];
  /** Of the unchanged purchases of the base, those that are first ones only since the changes. */
  readonly gained: readonly bigint[];
  /** And those that were first ones only before. */
  readonly lost: readonly bigint[];
};

/** Values that queries have read from a base, for all generations that share it. Null before that. */
export type BaseCache = {
  readonly labels: FileLabels;
  /** The quarter of the earliest purchase; null without purchases, and before a generation is created. */
  firstQuarter: number | null;
  /** The numbers of purchases by the key of their currency. */
  currencies: ReadonlyMap<number, number> | null;
  /** The numbers of different codes of coupons, and of pairs of a list of coupons and a code of it. */
  coupons: { readonly codes: number; readonly rows: number } | null;
};

export const createBaseCache = (shortcuts: Shortcuts): BaseCache => ({
  labels: createFileLabels(shortcuts),
  firstQuarter: null,
  currencies: null,
  coupons: null,
});

/** Bounds of all purchases. */
export type GenerationSummary = {
  /** The approximate number of purchases. */
  readonly purchases: number;
  /** No `created_at` is earlier or later; microseconds since 1970. */
  readonly first: bigint;
  readonly last: bigint;
  /** There are no purchases, so the bounds have no meaning. */
  readonly isEmpty: boolean;
};

/**
 * Creates the generation of a base and a delta. `applied` is the effect of the delta. DuckDB reads the
 * bounds of the base without a scan.
 */
export async function createGeneration(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  applied?: Applied,
  shortcuts: Shortcuts = defaultShortcuts,
  ofBase = createBaseCache(shortcuts),
): Promise<Generation> {
  const summary = await readBaseSummary(connection, catalogs, ofBase);
  const labels = createLabelCache(catalogs, shortcuts, ofBase.labels);
  const generation = {
    ...{ catalogs, labels, summary, ofBase, isUnchanged: true, changes: 0 },
    keyCounts: () => 0,
    changedFirsts: new Map(),
  } as const;
  return nextGeneration(generation, applied ?? (await readApplied(connection, catalogs)));
}

async function readBaseSummary(
  connection: DuckDBConnection,
  { base }: StoreCatalogs,
  ofBase: BaseCache,
): Promise<GenerationSummary> {
  if (base === emptyBase) return { purchases: 0, first: 0n, last: 0n, isEmpty: true };
  const [row] = await queryRows(
    connection,
    sql`
      select count(*), epoch_us(min(created_at)), epoch_us(max(created_at)),
        min(${raw(creationQuarter.name)})
      from ${raw(base)}.purchase`,
  );
  const [purchases, first, last, quarter] = row as [
    bigint,
    bigint | null,
    bigint | null,
    number | null,
  ];
  ofBase.firstQuarter = quarter;
  const isEmpty = first === null;
  return { purchases: Number(purchases), first: first ?? 0n, last: last ?? 0n, isEmpty };
}

/** The generation after changes. It shares the labels, which never change. */
export function nextGeneration(
  { catalogs, labels, ofBase, summary, isUnchanged, ...known }: Generation,
  { purchases, instants, changes, nextKeys }: Applied,
): Generation {
  const counts = new Map([...nextKeys].map(([{ name }, next]) => [name, next]));
  let { first, last, isEmpty } = summary;
  for (const instant of instants) {
    if (isEmpty || instant < first) first = instant;
    if (isEmpty || instant > last) last = instant;
    isEmpty = false;
  }
  const changed = { purchases: summary.purchases + purchases, first, last, isEmpty };
  return {
    ...{ catalogs, labels, ofBase },
    summary: changed,
    changes: known.changes + changes,
    keyCounts: ({ name }) => counts.get(name) ?? 0,
    changedFirsts: new Map(),
    isUnchanged: isUnchanged && purchases === 0 && instants.length === 0,
  };
}

/** Microseconds since 1970. */
export type TimeBounds = { readonly since: bigint; readonly until: bigint };

/** The approximate number of purchases within the bounds, if they are distributed evenly. */
export const purchasesWithin = (
  { purchases, first, last }: GenerationSummary,
  { since, until }: TimeBounds,
): number => (purchases * Number(until - since + 1n)) / Number(last - first + 1n);

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
