import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../../../src/postgres/connection/pool.ts';
import { isOfDatabase, sourceIdentity } from '../../../src/postgres/connection/source-identity.ts';
import { listOrganizations } from '../../../src/postgres/organizations.ts';
import type { RandomSource } from '../../../src/seed/random-source.ts';
import {
  difference,
  type Generation,
  type GenerationReader,
  generationOf,
  type Published,
  readPublished,
} from './generation.ts';
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
): Promise<Generation | null> {
  const generation = await reader.read(organizationId);
  if (generation === null) return null;
  const { current, shown, name, rows, errors } = generation;
  // The organization had this id in a former database. The API does not serve these files.
  if (current.source !== (await sourceOf(database, organizationId))) return null;
  // Postgres may have lost the transactions of this generation, and with them their history.
  if (hasLostHistory() && !(await isTokenKnown(database, shown.token))) return null;
  const expected = await purchasesAt(database, organizationId, shown.snapshot);
  const differences = difference(rows, expected);
  if (hasLostHistory() && !(await isTokenKnown(database, shown.token))) return null;
  if (differences !== null || errors.length > 0) {
    throw new Error(
      `organization ${organizationId}, ${name}, tick ${generation.tick}, snapshot ${shown.snapshot}: ` +
        [...errors, differences ?? ''].join('\n'),
    );
  }
  return generation;
}

/** The source of an organization; null if it was deleted. */
export async function sourceOf(database: Database, organizationId: bigint): Promise<string | null> {
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
 * Until the signal is aborted, compares each generation that shows `lastWrite` or a later instant with
 * Postgres. No transaction writes after `lastWrite`.
 */
export async function requireTrueClaims(
  database: Database,
  reader: GenerationReader,
  dataDirectory: string,
  lastWrite: bigint,
  signal: AbortSignal,
): Promise<void> {
  const checked = new Set<string>();
  while (!signal.aborted) {
    for (const { id } of await listOrganizations(database)) {
      const published = readPublished(dataDirectory, id);
      if (published === null || published.shown.asOf < lastWrite) continue;
      const generation = await reader.read(id);
      if (generation === null || checked.has(generation.name)) continue;
      if (generation.current.source !== (await sourceOf(database, id))) continue;
      checked.add(generation.name);
      const differences = difference(generation.rows, await purchasesNow(database, id));
      if (differences !== null) {
        const { asOf } = generation.shown;
        throw new Error(`${generation.name} shows ${asOf}, after the last write: ${differences}`);
      }
    }
    await sleep(50);
  }
}

/** Requires that no instant and no snapshot goes back, and counts generations. */
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
  const latest = new Map<bigint, Published>();
  let generations = 0;
  const check = (organizationId: bigint) => {
    const published = readPublished(dataDirectory, organizationId);
    const before = latest.get(organizationId);
    if (published === null) return;
    const { current, database } = published;
    // The API does not serve the files of a database that was replaced.
    if (database !== null && !isOfDatabase(current.source, database)) return;
    latest.set(organizationId, published);
    if (generationOf(published) !== (before && generationOf(before))) generations += 1;
    // After a restore, another organization may have the same id.
    if (before?.current.source === published.current.source)
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

const boundsOf = ({ shown: { snapshot } }: Published): [bigint, bigint] => {
  const [oldest, newest] = snapshot.split(':', 2).map(BigInt);
  return [oldest ?? 0n, newest ?? 0n];
};

function requireProgress(
  organizationId: bigint,
  before: Published,
  now: Published,
  hasLostHistory: boolean,
): void {
  const [oldestBefore, newestBefore] = boundsOf(before);
  const [oldest, newest] = boundsOf(now);
  // After a load or a join, ticks without changes show an earlier snapshot of the same purchases.
  const hasJoined = now.tick > before.tick && before.shown.snapshot !== before.tickSnapshot;
  // A restored Postgres assigns earlier transaction ids again.
  const isLater = hasLostHistory || hasJoined || (oldest >= oldestBefore && newest >= newestBefore);
  if (now.shown.asOf >= before.shown.asOf && isLater) return;
  const describe = ({ current, tick, shown }: Published) =>
    `${shown.snapshot} as of ${shown.asOf} (tick ${tick}, ${current.log} of tick ${current.tick})`;
  throw new Error(
    `organization ${organizationId} went back in time: ${describe(before)}, then ${describe(now)}`,
  );
}
