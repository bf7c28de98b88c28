import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../../src/postgres/pool.ts';
import {
  type ComparedRange,
  type Comparison,
  type ComparisonOptions,
  createComparison,
} from './comparison.ts';
import type { DictionaryDamage } from './dictionaries.ts';
import {
  IncomparableError,
  type PublishedContent,
  type PublishedContents,
  UnreadableError,
} from './published-content.ts';
import { allPurchases } from './purchase-range.ts';
import { differs, findDifferences, type RangeDifference } from './range-differences.ts';
import { splitRange } from './split-range.ts';

export const verificationStates = [
  'equal',
  'differs',
  'not published',
  /** The published generation cannot be read. Only a rebuild repairs it. */
  'unreadable',
  'not comparable',
] as const;

export type Verification = {
  readonly state: (typeof verificationStates)[number];
  readonly reason: string | null;
  /** The generation of the last part. */
  readonly generation: string | null;
  readonly asOf: bigint | null;
  /** Compared purchases of Postgres. */
  readonly purchases: number;
  /** Purchases that are excluded because they changed since the generation's snapshot. */
  readonly changedSince: number;
  readonly differences: readonly RangeDifference[];
  readonly dictionaries: readonly DictionaryDamage[];
};

export type VerifyOptions = {
  readonly organizationId: bigint;
  readonly database: Database;
  readonly open: (organizationId: bigint) => Promise<PublishedContents>;
  readonly signal: AbortSignal;
  /** The pause after each part, as a multiple of the part's duration. */
  readonly pauseFactor?: number;
  readonly maxWaitMs?: number;
  /** Purchases of one part, which is one transaction. */
  readonly partRows?: number;
  /** The maximum size of a range whose purchases are compared one by one. */
  readonly singleRows?: number;
};

/**
 * Compares the content of an organization's published generation with Postgres, in parts. Takes
 * no lock that a worker or a writer waits for. Rejects if Postgres fails; damage of the generation
 * is part of the result.
 */
export async function verifyOrganization(options: VerifyOptions): Promise<Verification> {
  const found: Findings = { ...nothingFound };
  const contents = await options.open(options.organizationId);
  try {
    const comparison = createComparison({ maxWaitMs: 30_000, ...options, contents });
    await compareInParts(comparison, options, found);
    const isEqual = found.differences.length + found.dictionaries.length === 0;
    return { ...found, state: isEqual ? 'equal' : 'differs', reason: null };
  } catch (error) {
    if (error instanceof UnreadableError) {
      return { ...found, state: 'unreadable', reason: error.message };
    }
    if (!(error instanceof IncomparableError)) throw error;
    const state = error.isPublished ? 'not comparable' : 'not published';
    return { ...found, state, reason: error.message };
  } finally {
    await contents.close();
  }
}

type Findings = {
  -readonly [Key in Exclude<keyof Verification, 'state' | 'reason'>]: Verification[Key];
};
export const nothingFound: Findings = {
  generation: null,
  asOf: null,
  purchases: 0,
  changedSince: 0,
  differences: [],
  dictionaries: [],
};

/** Compares all purchases, and adds each part's result to `found`. */
async function compareInParts(
  comparison: Comparison,
  options: Pick<VerifyOptions, 'signal' | 'pauseFactor' | 'partRows' | 'singleRows'>,
  found: Findings,
): Promise<void> {
  const { signal, pauseFactor = 0, partRows = 200_000, singleRows = 10_000 } = options;
  const newest = await comparison.newest();
  found.dictionaries = await newest.findDamage();
  const differing: ComparedRange[] = [];
  for (const part of await splitRange(newest, allPurchases, partRows)) {
    signal.throwIfAborted();
    const { content, compared, excluded, startedAt } = await comparison.compare(part, [part]);
    found.generation = content.generation.name;
    found.asOf = content.generation.asOf;
    found.changedSince += excluded;
    for (const range of compared) {
      found.purchases += range.postgres.count;
      if (differs(range)) differing.push(range);
    }
    await sleep((performance.now() - startedAt) * pauseFactor, undefined, { signal });
  }
  found.differences = await findDifferences(comparison, differing, singleRows);
}

/** The number of ranges and dictionaries in which an unpublished content differs from Postgres. */
export async function countDifferences(
  content: PublishedContent,
  options: Omit<ComparisonOptions, 'contents' | 'maxWaitMs'>,
): Promise<number> {
  const contents = { newest: async () => content };
  const found = { ...nothingFound };
  await compareInParts(createComparison({ ...options, contents, maxWaitMs: 0 }), options, found);
  return found.differences.length + found.dictionaries.length;
}
