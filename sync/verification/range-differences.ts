import type { ComparedRange, Comparison, RowHash } from './comparison.ts';
import { allPurchases, type PurchaseRange, splitRange } from './purchase-range.ts';

/** A range of purchases in which a published generation is not what Postgres holds. */
export type RangeDifference = PurchaseRange & {
  /** Purchases that were compared, on either side. */
  readonly publishedCount: number;
  readonly postgresCount: number;
  /** One by one; null where there were too many to compare them so. */
  readonly rows: RowDifferences | null;
};

export type RowDifferences = {
  /** Purchases of Postgres that the generation lacks. */
  readonly missing: number;
  /** Rows of the generation that Postgres has not, a second one of the same number among them. */
  readonly surplus: number;
  readonly different: number;
  /** Some of their numbers. */
  readonly examples: readonly bigint[];
};

// Each look has a transaction of its own. Damage that is everywhere is not worth more.
const mostLooks = 32;
const slices = 16;
const mostExamples = 5;

export const differs = ({ published, postgres }: ComparedRange): boolean =>
  published.count !== postgres.count || published.sum !== postgres.sum;

/**
 * Narrows ranges that differ down to the purchases that do, as far as a bounded
 * number of looks allows. What has become equal meanwhile is no difference.
 */
export async function findDifferences(
  comparison: Comparison,
  ranges: readonly ComparedRange[],
  singleRows: number,
): Promise<RangeDifference[]> {
  const looks = { left: mostLooks };
  const found: RangeDifference[] = [];
  for (const range of ranges) found.push(...(await narrow(comparison, range, singleRows, looks)));
  return mergeAdjacent(found);
}

async function narrow(
  comparison: Comparison,
  compared: ComparedRange,
  singleRows: number,
  looks: { left: number },
): Promise<RangeDifference[]> {
  const { range, published, postgres } = compared;
  const whole = {
    ...range,
    publishedCount: published.count,
    postgresCount: postgres.count,
    rows: null,
  };
  if (looks.left === 0) return [whole];
  looks.left -= 1;
  if (Math.max(published.count, postgres.count) <= singleRows) {
    const { published, postgres } = await comparison.compareRows(range);
    return compareRows(published, postgres);
  }
  const { query, catalog } = await comparison.newest();
  const split = await splitRange(query, catalog, range, Math.ceil(published.count / slices));
  if (split.length < 2) return [whole];
  const { compared: parts } = await comparison.compare(range, split);
  const differing = parts.filter(differs);
  // Where most of it differs, the whole range says as much as its parts would.
  if (differing.length > split.length / 2) return [whole];
  const found: RangeDifference[] = [];
  for (const part of differing) found.push(...(await narrow(comparison, part, singleRows, looks)));
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
      ...around(differing),
      publishedCount: published.length,
      postgresCount: postgres.length,
      rows: {
        ...counts,
        examples: [...new Set(differing.map(({ id }) => id))].slice(0, mostExamples),
      },
    },
  ];
}

/** The smallest range that holds these rows. */
function around(rows: readonly RowHash[]): PurchaseRange {
  const all = allPurchases;
  const [createdSince, createdUntil] = boundsOf(rows.map(({ created }) => created));
  const [idFrom, idUntil] = boundsOf(rows.map(({ id }) => id));
  // What a damaged file holds may lie beyond all that a range can name: then it has no bound.
  return {
    createdSince: within(createdSince, all.createdSince, all.createdUntil),
    createdUntil: within(createdUntil, all.createdSince, all.createdUntil),
    idFrom: within(idFrom, all.idFrom, all.idUntil),
    idUntil: within(idUntil, all.idFrom, all.idUntil),
  };
}

function boundsOf(values: readonly bigint[]): [least: bigint, most: bigint] {
  let [least, most] = [values[0] ?? 0n, values[0] ?? 0n];
  for (const value of values) {
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return [least, most];
}

function within(value: bigint, least: bigint, most: bigint): bigint {
  return value < least ? least : value > most ? most : value;
}

/** Says once what was found of neighbours that were not looked into. */
function mergeAdjacent(differences: readonly RangeDifference[]): RangeDifference[] {
  const merged: RangeDifference[] = [];
  for (const next of differences) {
    const last = merged.at(-1);
    if (last === undefined || !areNeighbours(last, next)) merged.push(next);
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

function areNeighbours(one: RangeDifference, next: RangeDifference): boolean {
  return (
    one.rows === null &&
    next.rows === null &&
    one.createdUntil + 1n === next.createdSince &&
    one.idFrom === next.idFrom &&
    one.idUntil === next.idUntil
  );
}
