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
import { isConnectionLoss, isSourceGone } from './writers.ts';

/** Compares what is published with what Postgres held at the snapshot that it names. */
export async function compareWithHistory(
  database: Database,
  reader: GenerationReader,
  organizationId: bigint,
  hasLostHistory: () => boolean,
): Promise<PublishedGeneration | null> {
  const generation = await reader.read(organizationId);
  if (generation === null) return null;
  const { published, rows, faults } = generation;
  // Of a company that had the same id in a database that is gone: the API does not serve it.
  if (published.source !== (await sourceOf(database, organizationId))) return null;
  // What it shows may have been lost, and cannot be told any more.
  if (hasLostHistory() && !(await isTokenKnown(database, published.token))) return null;
  const expected = await purchasesAt(database, organizationId, published.snapshot);
  const told = difference(rows, expected);
  if (hasLostHistory() && !(await isTokenKnown(database, published.token))) return null;
  if (told !== null || faults.length > 0) {
    throw new Error(
      `organization ${organizationId}, ${published.file}, snapshot ${published.snapshot}: ` +
        [...faults, told ?? ''].join('\n'),
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

/** Looks at random organizations at random moments. Gives the number of comparisons. */
export async function witness(
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
      if (!isConnectionLoss(error) && !isSourceGone(error)) throw error;
    }
  }
  return comparisons;
}

/**
 * Compares, until the signal is aborted, whatever is claimed to show everything up to
 * `quietSince` or later with what Postgres holds: nobody has written since.
 */
export async function requireTrueClaims(
  database: Database,
  reader: GenerationReader,
  dataDirectory: string,
  quietSince: bigint,
  signal: AbortSignal,
): Promise<void> {
  const claims = readUpToDate(dataDirectory);
  const checked = new Set<string>();
  while (!signal.aborted) {
    for (const { id } of await listOrganizations(database)) {
      const file = readPublished(organizationDirectory(dataDirectory, id))?.file ?? '';
      if (checked.has(file) || (claims.instantOf(id, file) ?? 0n) < quietSince) continue;
      const generation = await reader.read(id);
      if (generation?.published.file !== file) continue;
      checked.add(file);
      const told = difference(generation.rows, await purchasesNow(database, id));
      if (told !== null) throw new Error(`${file} is claimed to show everything: ${told}`);
    }
    await sleep(50);
  }
}

/** Watches that no organization's generations ever go back in time, and counts them. */
export type Timekeeper = {
  /** How many generations came to be while somebody looked. */
  generations(): number;
  /** Looks all the time, at whatever organizations there are. */
  watch(database: Database, signal: AbortSignal): Promise<void>;
};

export function createTimekeeper(dataDirectory: string, hasLostHistory: () => boolean): Timekeeper {
  const latest = new Map<bigint, PublishedGeneration>();
  let generations = 0;
  const look = (organizationId: bigint) => {
    const published = readPublished(organizationDirectory(dataDirectory, organizationId));
    const before = latest.get(organizationId);
    if (published === null || published.file === before?.file) return;
    latest.set(organizationId, published);
    generations += 1;
    // Another organization may have the same id, after a restore.
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
        for (const { id } of organizations) look(id);
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
  // Where Postgres was set back, its transaction numbers were, too.
  const isLater = hasLostHistory || (oldest >= oldestBefore && newest >= newestBefore);
  if (now.asOf >= before.asOf && isLater) return;
  throw new Error(
    `organization ${organizationId} went back in time: ` +
      `${before.snapshot} as of ${before.asOf}, then ${now.snapshot} as of ${now.asOf}`,
  );
}
