import { setTimeout as sleep } from 'node:timers/promises';
import sql, { raw } from 'sql-template-tag';
import { type DuckDBOptions, queryRows } from '../../src/duckdb/connection.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { layoutVersion } from '../../src/purchase-store/layout.ts';
import type { StoreCatalogs } from '../../src/purchase-store/relations.ts';
import type { DeltaFile } from '../files/delta-file.ts';
import {
  type ComparedRange,
  type Comparison,
  type ComparisonOptions,
  createComparison,
  IncomparableError,
} from './comparison.ts';
import { type DictionaryDamage, findDictionaryDamage } from './dictionaries.ts';
import { openPublishedFiles, type PublishedFile, UnreadableFileError } from './published-file.ts';
import { allPurchases, splitRange } from './purchase-range.ts';
import { differs, findDifferences, type RangeDifference } from './range-differences.ts';

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
  readonly dataDirectory: string;
  /** Options of a separate instance, because the files may be damaged. */
  readonly duckdb: DuckDBOptions;
  readonly signal: AbortSignal;
  /** The pause after each part, as a multiple of the part's duration. */
  readonly pauseFactor?: number;
  readonly patienceMs?: number;
  /** Purchases of one part, which is one transaction. */
  readonly partRows?: number;
  /** The maximum size of a range whose purchases are compared one by one. */
  readonly singleRows?: number;
};

/**
 * Compares the content of an organization's published generation with Postgres, in parts. Takes
 * no lock that a worker or a writer waits for. Rejects if Postgres fails; damage of the file is
 * part of the result.
 */
export async function verifyOrganization(options: VerifyOptions): Promise<Verification> {
  const { organizationId, dataDirectory, duckdb } = options;
  const found: Findings = { ...nothingFound };
  const files = await openPublishedFiles(dataDirectory, organizationId, duckdb);
  try {
    const comparison = createComparison({ patienceMs: 30_000, ...options, files });
    await compareInParts(comparison, options, found);
    const isEqual = found.differences.length + found.dictionaries.length === 0;
    return { ...found, state: isEqual ? 'equal' : 'differs', reason: null };
  } catch (error) {
    if (error instanceof UnreadableFileError) {
      return { ...found, state: 'unreadable', reason: error.message };
    }
    if (!(error instanceof IncomparableError)) throw error;
    const state = error.isPublished ? 'not comparable' : 'not published';
    return { ...found, state, reason: error.message };
  } finally {
    files.close();
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
  const { query, catalogs } = await comparison.newest();
  await requireSupersededRows(query, catalogs);
  found.dictionaries = await findDictionaryDamage(query, catalogs);
  const differing: ComparedRange[] = [];
  for (const part of await splitRange(query, catalogs, allPurchases, partRows)) {
    signal.throwIfAborted();
    const startedAt = performance.now();
    const { file, compared, excluded } = await comparison.compare(part, [part]);
    found.generation = file.generation.file;
    found.asOf = file.generation.asOf;
    found.changedSince += excluded;
    for (const range of compared) {
      found.purchases += range.postgres.count;
      if (differs(range)) differing.push(range);
    }
    await sleep((performance.now() - startedAt) * pauseFactor, undefined, { signal });
  }
  found.differences = await findDifferences(comparison, differing, singleRows);
}

/**
 * Rejects with UnreadableFileError if superseded rows differ from the base: signed sums would then
 * be wrong, although the purchases themselves may be equal.
 */
async function requireSupersededRows(
  query: PublishedFile['query'],
  { base, delta }: StoreCatalogs,
): Promise<void> {
  const superseded = sql`select * exclude (sign) from ${raw(delta)}.change where sign < 0`;
  const original = sql`select * from ${raw(base)}.purchase semi join (${superseded}) using (id)`;
  const [row] = await query(sql`
    select (select count(*) from (${superseded} except all ${original}))
      + (select count(*) from (${original} except all ${superseded}))`);
  if (row?.[0] === 0n) return;
  throw new UnreadableFileError(`${row?.[0]} superseded rows differ from the base`);
}

/** The number of ranges and dictionaries in which an unpublished file differs from Postgres. */
export async function countDifferences(
  { connection, catalogs, base, path, watermark }: DeltaFile,
  options: Omit<ComparisonOptions, 'files' | 'patienceMs'>,
): Promise<number> {
  const file: PublishedFile = {
    generation: { layoutVersion, file: path, base, ...watermark, purchases: 0, bytes: 0 },
    connection,
    catalogs,
    query: (statement) => queryRows(connection, statement),
  };
  const files = { newest: async () => file };
  const found = { ...nothingFound };
  await compareInParts(createComparison({ ...options, files, patienceMs: 0 }), options, found);
  return found.differences.length + found.dictionaries.length;
}
