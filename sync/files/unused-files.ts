import { readdirSync, rmSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { decodeId } from '../../src/domain/public-id.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import {
  isOfDatabase,
  readDatabaseIdentity,
} from '../../src/postgres/connection/source-identity.ts';
import { listOrganizations } from '../../src/postgres/organizations.ts';
import { savedDeltaOf } from '../../src/purchase-store/delta/saved-delta.ts';
import {
  type Current,
  organizationDirectory,
  purchasesDirectory,
  readCurrent,
} from '../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../src/purchase-store/format/layout.ts';
import { isOfShard, type Shard } from '../../src/purchase-store/ticks/shard.ts';

/** Readers with an open file keep the content until they close the file. */
export async function removeOrganizationFolder(
  dataDirectory: string,
  organizationId: bigint,
): Promise<void> {
  const directory = organizationDirectory(dataDirectory, organizationId);
  await rm(directory, { recursive: true, force: true });
}

/** Files of the purchase store, also of earlier layouts and of builds that were interrupted. */
const isStoreFile = (name: string): boolean =>
  /^(base-[0-9a-f]+\.duckdb|log-[0-9a-f]+\.tsv|delta-[0-9a-f]+\.duckdb(\.unfinished)?|load-[ab]\.[ct]sv|\d+-[0-9a-f-]+\.duckdb(\.tmp)?|(base\.(unfinished|merged)|live|next)\.duckdb|OWNER|STATUS)(\.wal)?$/.test(
    name,
  );

export const isUnfinishedBase = (name: string): boolean => name.startsWith('base.unfinished.');

/**
 * Removes the bases and logs that CURRENT does not name, and saved deltas of other logs, at once: call it
 * while nothing is built.
 */
export function removeUnusedFiles(
  directory: string,
  { base, log, replacedLogs }: Current,
  isToStay: (name: string) => boolean = () => false,
): void {
  const logs = replacedLogs.map((replaced) => replaced.log);
  const named = new Set([base, log, savedDeltaOf(log), ...logs]);
  for (const name of readdirSync(directory)) {
    if (!isStoreFile(name) || named.has(name) || isToStay(name)) continue;
    // Also a folder that replaced a file.
    rmSync(join(directory, name), { force: true, recursive: true });
  }
}

/**
 * The organizations of `stored` that were deleted. Those of another database stay: DATABASE_URL may be
 * wrong. A source is null if nothing is published.
 */
export async function findDeleted(
  database: Database,
  stored: readonly { readonly organizationId: bigint; readonly source: string | null }[],
): Promise<bigint[]> {
  if (stored.length === 0) return [];
  const identity = await readDatabaseIdentity(database);
  const present = new Set((await listOrganizations(database)).map(({ id }) => id));
  return stored
    .filter(({ organizationId: id }) => !present.has(id))
    .filter(({ source }) => source === null || isOfDatabase(source, identity))
    .map(({ organizationId }) => organizationId);
}

/** Removes folders of organizations that were deleted while no worker ran, or during their load. */
export async function removeOrphanedFolders(
  database: Database,
  dataDirectory: string,
  shard: Shard,
  isInUse: (organizationId: bigint) => boolean,
): Promise<void> {
  // Folders are listed before organizations: a new organization may appear at any time.
  const names = await readdir(purchasesDirectory(dataDirectory));
  const unused = names.flatMap((name) => {
    const id = name.startsWith('org_') ? decodeId('organization', name) : null;
    if (id === null || !isOfShard(id, shard) || isInUse(id)) return [];
    try {
      const current = readCurrent(organizationDirectory(dataDirectory, id), layoutVersion);
      return [{ organizationId: id, source: current?.source ?? null }];
    } catch {
      // CURRENT cannot be read, and may be of another database.
      return [];
    }
  });
  for (const id of await findDeleted(database, unused)) {
    await removeOrganizationFolder(dataDirectory, id);
  }
}
