import { setTimeout as sleep } from 'node:timers/promises';
import sql from 'sql-template-tag';
import type { PurchasePlace } from '../../src/domain/purchase-query.ts';
import type { Connection, Database } from '../../src/postgres/connection/pool.ts';
import { describeFailure } from '../describe-failure.ts';
import {
  DamagedGenerationError,
  IncomparableError,
  type PublishedContent,
  type PublishedContents,
  type RowHash,
} from './published-content.ts';
import {
  type ComparedRange,
  type ComparisonOptions,
  compareRange,
  readRowHashes,
} from './range-comparison.ts';

export const verificationStates = [
  'equal',
  'differs',
  'not published',
  /** The published generation is damaged: a file cannot be read, or contradicts itself. */
  'unreadable',
  'not comparable',
] as const;

export type Verification = {
  readonly state: (typeof verificationStates)[number];
  readonly reason: string | null;
  /** The generation of the last range. */
  readonly generation: string | null;
  readonly asOf: bigint | null;
  /** Compared purchases of Postgres. */
  readonly purchases: number;
  /** Purchases that the last range excludes because they changed since the generation's snapshot. */
  readonly changedSince: number;
  /** The number of purchases that differ; at least that many if a range has far too many or too few. */
  readonly differing: number;
  /** Ids of some of the purchases that differ. */
  readonly examples: readonly bigint[];
};

export type VerifyOptions = {
  readonly organizationId: bigint;
  readonly database: Database;
  readonly open: (organizationId: bigint) => Promise<PublishedContents>;
  readonly signal: AbortSignal;
  /** The pause after each range, as a multiple of the range's duration. */
  readonly pauseFactor?: number;
  readonly maxWaitMs?: number;
  /** Purchases of one range, which is one transaction. */
  readonly rangeRows?: number;
};

const maxExamples = 5;
/** If the counts of a range differ by more than this number, the purchases are not read one by one. */
const maxExcess = 50_000;

/**
 * Compares the content of an organization's published generation with Postgres, in ranges. Takes
 * no lock that a worker or a writer waits for. Rejects if Postgres fails; damage of the generation
 * is part of the result.
 */
export async function verifyOrganization(options: VerifyOptions): Promise<Verification> {
  const found: Findings = { ...nothingFound };
  const contents = await options.open(options.organizationId);
  try {
    await compareInParts({ maxWaitMs: 30_000, ...options, contents }, found);
    return { ...found, state: found.differing === 0 ? 'equal' : 'differs', reason: null };
  } catch (error) {
    if (error instanceof DamagedGenerationError) {
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
  differing: 0,
  examples: [],
};

/** Compares all purchases, and adds each range's result to `found`. */
async function compareInParts(
  options: ComparisonOptions & Pick<VerifyOptions, 'pauseFactor' | 'rangeRows'>,
  found: Findings,
): Promise<void> {
  const { signal, pauseFactor = 0, rangeRows = 50_000 } = options;
  let after: PurchasePlace | null = null;
  let content: PublishedContent;
  do {
    signal.throwIfAborted();
    const compared: ComparedRange = await compareRange(options, after, rangeRows);
    const { published, postgres } = compared;
    content = compared.content;
    found.generation = content.generation.name;
    found.asOf = content.generation.asOf;
    found.changedSince = compared.changed;
    found.purchases += postgres.count;
    if (published.count !== postgres.count || published.sum !== postgres.sum) {
      const { differing, ids } = await findDifferences(options, compared);
      found.differing += differing;
      found.examples = [...found.examples, ...ids].slice(0, maxExamples);
    }
    await sleep((performance.now() - compared.startedAt) * pauseFactor, undefined, { signal });
    after = compared.range.until;
  } while (after !== null);
  if (found.differing === 0) await content.requireConsistent();
}

/** Compares the purchases of a range, which may have become equal meanwhile. */
async function findDifferences(
  options: ComparisonOptions,
  { range, published, postgres }: ComparedRange,
): Promise<{ readonly differing: number; readonly ids: readonly bigint[] }> {
  const excess = Math.abs(published.count - postgres.count);
  if (excess > maxExcess) return { differing: excess, ids: [] };
  const hashes = await readRowHashes(options, range);
  const ids = differingIds(hashes.published, hashes.postgres);
  return { differing: ids.length, ids };
}

/** A purchase that a generation has twice differs, too. */
function differingIds(published: readonly RowHash[], postgres: readonly RowHash[]): bigint[] {
  const unmatched = new Map(postgres);
  const ids = new Set<bigint>();
  for (const [id, hash] of published) {
    if (unmatched.get(id) === hash) unmatched.delete(id);
    else ids.add(id);
  }
  for (const id of unmatched.keys()) ids.add(id);
  return [...ids];
}

export type Repair = {
  /** The verification after the rebuild, or before a rebuild that failed. */
  readonly outcome: Verification;
  /** Why the rebuild, or the verification after it, failed. */
  readonly failure: string | null;
};

/**
 * Rebuilds an organization that differs, and verifies the result. Null if nothing differs, or the
 * generation cannot be compared. A failure does not reject, so that the caller can report what differs.
 */
export async function repair(
  found: Verification,
  rebuild: () => Promise<void>,
  verifyAgain: () => Promise<Verification>,
): Promise<Repair | null> {
  if (found.state !== 'differs' && found.state !== 'unreadable') return null;
  let outcome = found;
  try {
    await rebuild();
    // What differed has been replaced.
    outcome = {
      ...nothingFound,
      state: 'not comparable',
      reason: 'not verified since the rebuild',
    };
    return { outcome: await verifyAgain(), failure: null };
  } catch (error) {
    return { outcome, failure: describeFailure(error).message };
  }
}

/** What was loaded differs from Postgres. */
export class WrongLoadError extends Error {}

/** Rejects if an unpublished content differs from Postgres. */
export async function requireEqual(
  content: PublishedContent,
  options: Omit<ComparisonOptions, 'contents' | 'maxWaitMs'>,
): Promise<void> {
  const contents = { newest: async () => content };
  const found = { ...nothingFound };
  await compareInParts({ ...options, contents, maxWaitMs: 0 }, found);
  if (found.differing > 0) {
    throw new WrongLoadError(`loaded purchases that differ from Postgres: ${found.differing}`);
  }
}

/** Rejects if `totals` of loaded purchases, such as `2 worth 300`, differ from those of Postgres. */
export async function requireTotals(
  connection: Connection,
  organizationId: bigint,
  totals: unknown,
): Promise<void> {
  const { rows } = await connection.query<{ totals: string }>(sql`
    select count(*) || ' worth ' || coalesce(sum(purchase_value_in_cents), 0) as totals
    from purchases where organization_id = ${organizationId}`);
  if (totals === rows[0]?.totals) return;
  throw new WrongLoadError('count and total value of the loaded purchases differ from Postgres');
}
