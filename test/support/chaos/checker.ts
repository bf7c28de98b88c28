import { setTimeout as sleep } from 'node:timers/promises';
import { listOrganizations } from '../../../src/postgres/organizations.ts';
import type { Database } from '../../../src/postgres/pool.ts';
import { sourceIdentity } from '../../../src/postgres/source-identity.ts';
import {
  organizationDirectory,
  type PublishedGeneration,
  readPublished,
} from '../../../src/purchase-store/published-generation.ts';
import { readUpToDate } from '../../../src/purchase-store/up-to-date.ts';
import type { RandomSource } from '../../../src/seed/random-source.ts';
import { difference, type GenerationReader } from './generation.ts';
import { purchasesAt, purchasesNow } from './history.ts';
import { isConnectionLoss, isDatabaseReplaced } from './writers.ts';

/**
 * Compares a published generation with the purchases of Postgres at its snapshot. Null if nothing is
 * published, or if Postgres lost the history of the generation.
 */
export async function compareWithHistory(
  database: Database,
  reader: GenerationReader,
  organizationId: bigint,
  hasLostHistory: () => boolean,
): Promise<PublishedGeneration | null> {
  const generation = await reader.read(organizationId);
  if (generation === null) return null;
  const { published, rows, errors } = generation;
  // The organization had this id in a former database. The API does not serve these files.
  if (published.source !== (await sourceOf(database, organizationId))) return null;
  // Postgres may have lost the transactions of this generation, and with them their history.
  if (hasLostHistory() && !(await isTokenKnown(database, published.token))) return null;
  const expected = await purchasesAt(database, organizationId, published.snapshot);
  const differences = difference(rows, expected);
  if (hasLostHistory() && !(await isTokenKnown(database, published.token))) return null;
  if (differences !== null || errors.length > 0) {
    throw new Error(
      `organization ${organizationId}, ${published.file}, snapshot ${published.snapshot}: ` +
        [...errors, differences ?? ''].join('\n'),
    );
  }
  return published;
}

async function sourceOf(database: Database, organizationId: bigint): Promise<string | null> {
  const { rows } = await database.query<{ source: string }>(
    `select ${sourceIdentity} as source from organizations where id = $1`,
    [organizationId],
  );
  return rows[0]?.source ?? null;
}

async function isTokenKnown(database: Database, token: string): Promise<boolean> {
  const { rowCount } = await database.query('select from purchase_changes where token = $1::uuid', [
    token,
  ]);
  return rowCount === 1;
}

/** Compares random organizations at random times. Returns the number of comparisons. */
export async function checkAtRandomTimes(
  database: Database,
  reader: GenerationReader,
  random: RandomSource,
  hasLostHistory: () => boolean,
  signal: AbortSignal,
): Promise<number> {
  let comparisons = 0;
  while (!signal.aborted) {
    await sleep(random.between(0, 300), undefined, { signal }).catch(() => {});
    const order = random.fraction();
    try {
      const organizations = await listOrganizations(database);
      const organization = organizations[Math.floor(order * organizations.length)];
      if (organization === undefined) continue;
      if ((await compareWithHistory(database, reader, organization.id, hasLostHistory)) !== null)
        comparisons += 1;
    } catch (error) {
      if (!isConnectionLoss(error) && !isDatabaseReplaced(error)) throw error;
    }
  }
  return comparisons;
}

/**
 * Until the signal is aborted, compares each generation that `up-to-date` records as complete at
 * `lastWrite` or later with Postgres. No transaction writes after `lastWrite`.
 */
export async function requireTrueClaims(
  database: Database,
  reader: GenerationReader,
  dataDirectory: string,
  lastWrite: bigint,
  signal: AbortSignal,
): Promise<void> {
  const claims = readUpToDate(dataDirectory);
  const checked = new Set<string>();
  while (!signal.aborted) {
    for (const { id } of await listOrganizations(database)) {
      const file = readPublished(organizationDirectory(dataDirectory, id))?.file ?? '';
      if (checked.has(file) || (claims.instantOf(id, file) ?? 0n) < lastWrite) continue;
      const generation = await reader.read(id);
      if (generation?.published.file !== file) continue;
      checked.add(file);
      const differences = difference(generation.rows, await purchasesNow(database, id));
      if (differences !== null) {
        throw new Error(`${file} is recorded as up to date: ${differences}`);
      }
    }
    await sleep(50);
  }
}

/** Requires that each generation is of a later time than the one before, and counts generations. */
export type GenerationMonitor = {
  /** The generations that `watch` has seen. */
  generations(): number;
  /** Polls all organizations until the signal is aborted. */
  watch(database: Database, signal: AbortSignal): Promise<void>;
};

export function createGenerationMonitor(
  dataDirectory: string,
  hasLostHistory: () => boolean,
): GenerationMonitor {
  const latest = new Map<bigint, PublishedGeneration>();
  let generations = 0;
  const check = (organizationId: bigint) => {
    const published = readPublished(organizationDirectory(dataDirectory, organizationId));
    const before = latest.get(organizationId);
    if (published === null || published.file === before?.file) return;
    latest.set(organizationId, published);
    generations += 1;
    // After a restore, another organization may have the same id.
    if (before?.source === published.source)
      requireProgress(organizationId, before, published, hasLostHistory());
  };
  return {
    generations: () => generations,
    async watch(database, signal) {
      let organizations: readonly { readonly id: bigint }[] = [];
      for (let count = 0; !signal.aborted; count += 1) {
        if (count % 20 === 0) {
          organizations = await listOrganizations(database).catch(() => organizations);
        }
        for (const { id } of organizations) check(id);
        await sleep(25);
      }
    },
  };
}

const boundsOf = ({ snapshot }: PublishedGeneration): [bigint, bigint] => {
  const [oldest, newest] = snapshot.split(':', 2).map(BigInt);
  return [oldest ?? 0n, newest ?? 0n];
};

function requireProgress(
  organizationId: bigint,
  before: PublishedGeneration,
  now: PublishedGeneration,
  hasLostHistory: boolean,
): void {
  const [oldestBefore, newestBefore] = boundsOf(before);
  const [oldest, newest] = boundsOf(now);
  // A restored Postgres assigns earlier transaction ids again.
  const isLater = hasLostHistory || (oldest >= oldestBefore && newest >= newestBefore);
  if (now.asOf >= before.asOf && isLater) return;
  throw new Error(
    `organization ${organizationId} went back in time: ` +
      `${before.snapshot} as of ${before.asOf}, then ${now.snapshot} as of ${now.asOf}`,
  );
}
