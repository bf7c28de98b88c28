import { readdir, rm } from 'node:fs/promises';
import { decodeId } from '../../src/domain/public-id.ts';
import { listOrganizations } from '../../src/postgres/organizations.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { isOfDatabase, readDatabaseIdentity } from '../../src/postgres/source-identity.ts';
import {
  organizationDirectory,
  purchasesDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { isOfShard, type Shard } from '../shard.ts';

/** Readers with an open file keep the content until they close the file. */
export async function removeOrganizationFolder(
  dataDirectory: string,
  organizationId: bigint,
): Promise<void> {
  const directory = organizationDirectory(dataDirectory, organizationId);
  await rm(directory, { recursive: true, force: true });
}

/**
 * Removes folders of organizations that were deleted while no worker ran, or during their load.
 * Folders with a generation of another database stay: DATABASE_URL may be wrong.
 */
export async function removeOrphanedFolders(
  database: Database,
  dataDirectory: string,
  shard: Shard,
  isInUse: (organizationId: bigint) => boolean,
): Promise<void> {
  const identity = await readDatabaseIdentity(database);
  // Folders are listed before organizations: a new organization may appear at any time.
  const names = await readdir(purchasesDirectory(dataDirectory));
  const present = new Set((await listOrganizations(database)).map(({ id }) => id));
  for (const name of names) {
    const id = name.startsWith('org_') ? decodeId('organization', name) : null;
    if (id === null || present.has(id) || !isOfShard(id, shard) || isInUse(id)) continue;
    if (isOfOtherDatabase(organizationDirectory(dataDirectory, id), identity)) continue;
    await removeOrganizationFolder(dataDirectory, id);
  }
}

/** Also true if CURRENT is unreadable. */
function isOfOtherDatabase(directory: string, identity: string): boolean {
  try {
    const published = readPublished(directory);
    return published !== null && !isOfDatabase(published.source, identity);
  } catch {
    return true;
  }
}
