import type { ComparedRange, Comparison } from './comparison.ts';
import type { RowHash } from './published-content.ts';
import { allPurchases, type PurchaseRange } from './purchase-range.ts';
import { splitRange } from './split-range.ts';

/** A range of purchases in which a published generation differs from Postgres. */
export type RangeDifference = PurchaseRange & {
  readonly publishedCount: number;
  readonly postgresCount: number;
  /** The result of comparing single purchases; null if the range has too many. */
  readonly rows: RowDifferences | null;
};

type RowDifferences = {
  /** Purchases that the generation lacks. */
  readonly missing: number;
  /** Rows that Postgres lacks, and further rows with one id. */
  readonly surplus: number;
  readonly different: number;
  /** Some of the ids. */
  readonly examples: readonly bigint[];
};

// Each comparison has its own transaction. Damage of the whole file needs no more of them.
const maxComparisons = 32;
const slices = 16;
const maxExamples = 5;

export const differs = ({ published, postgres }: ComparedRange): boolean =>
  published.count !== postgres.count || published.sum !== postgres.sum;

/**
 * Splits ranges that differ down to single purchases, with a bounded number of comparisons.
 * Ranges that have become equal meanwhile are omitted.
 */
export async function findDifferences(
  comparison: Comparison,
  ranges: readonly ComparedRange[],
  singleRows: number,
): Promise<RangeDifference[]> {
  const budget = { left: maxComparisons };
  const found: RangeDifference[] = [];
  for (const range of ranges) found.push(...(await narrow(comparison, range, singleRows, budget)));
  return mergeAdjacent(found);
}

async function narrow(
  comparison: Comparison,
  compared: ComparedRange,
  singleRows: number,
  budget: { left: number },
): Promise<RangeDifference[]> {
  const { range, published, postgres } = compared;
  const whole = {
    ...range,
    publishedCount: published.count,
    postgresCount: postgres.count,
    rows: null,
  };
  if (budget.left === 0) return [whole];
  budget.left -= 1;
  if (Math.max(published.count, postgres.count) <= singleRows) {
    const { published, postgres } = await comparison.compareRows(range);
    return compareRows(published, postgres);
  }
  const content = await comparison.newest();
  const split = await splitRange(content, range, Math.ceil(published.count / slices));
  if (split.length < 2) return [whole];
  const { compared: parts } = await comparison.compare(range, split);
  const differing = parts.filter(differs);
  // If most parts differ, the whole range is reported.
  if (differing.length > split.length / 2) return [whole];
  const found: RangeDifference[] = [];
  for (const part of differing) found.push(...(await narrow(comparison, part, singleRows, budget)));
  return found;
}

function compareRows(
  published: readonly RowHash[],
  postgres: readonly RowHash[],
): RangeDifference[] {
  const originals = new Map(postgres.map((row) => [row.id, row]));
  const unmatched = new Map(originals);
  const counts = { missing: 0, surplus: 0, different: 0 };
  const differing: RowHash[] = [];
  for (const copy of published) {
    const original = originals.get(copy.id);
    const isFirst = unmatched.delete(copy.id);
    if (original === undefined || !isFirst) counts.surplus += 1;
    else if (original.hash !== copy.hash) {
      counts.different += 1;
      differing.push(original);
    } else continue;
    differing.push(copy);
  }
  counts.missing = unmatched.size;
  differing.push(...unmatched.values());
  if (differing.length === 0) return [];
  return [
    {
      ...rangeOf(differing),
      publishedCount: published.length,
      postgresCount: postgres.length,
      rows: {
        ...counts,
        examples: [...new Set(differing.map(({ id }) => id))].slice(0, maxExamples),
      },
    },
  ];
}

/** The smallest range that holds these rows. */
function rangeOf(rows: readonly RowHash[]): PurchaseRange {
  const all = allPurchases;
  const [createdSince, createdUntil] = boundsOf(rows.map(({ created }) => created));
  const [idFrom, idUntil] = boundsOf(rows.map(({ id }) => id));
  // Damaged values may lie beyond the bounds of a range: the range then has no bound.
  return {
    createdSince: clamp(createdSince, all.createdSince, all.createdUntil),
    createdUntil: clamp(createdUntil, all.createdSince, all.createdUntil),
    idFrom: clamp(idFrom, all.idFrom, all.idUntil),
    idUntil: clamp(idUntil, all.idFrom, all.idUntil),
  };
}

function boundsOf(values: readonly bigint[]): [min: bigint, max: bigint] {
  let [min, max] = [values[0] ?? 0n, values[0] ?? 0n];
  for (const value of values) {
    if (value < min) min = value;
    if (value > max) max = value;
  }
  return [min, max];
}

function clamp(value: bigint, min: bigint, max: bigint): bigint {
  return value < min ? min : value > max ? max : value;
}

/** Merges neighbouring ranges whose purchases were not compared one by one. */
function mergeAdjacent(differences: readonly RangeDifference[]): RangeDifference[] {
  const merged: RangeDifference[] = [];
  for (const next of differences) {
    const last = merged.at(-1);
    if (last === undefined || !areAdjacent(last, next)) merged.push(next);
    else {
      merged[merged.length - 1] = {
        ...last,
        createdUntil: next.createdUntil,
        publishedCount: last.publishedCount + next.publishedCount,
        postgresCount: last.postgresCount + next.postgresCount,
      };
    }
  }
  return merged;
}

function areAdjacent(one: RangeDifference, next: RangeDifference): boolean {
  return (
    one.rows === null &&
    next.rows === null &&
    one.createdUntil + 1n === next.createdSince &&
    one.idFrom === next.idFrom &&
    one.idUntil === next.idUntil
  );
}
