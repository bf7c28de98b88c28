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

/** All of it is derived; readers that have a file open keep it until they close it. */
export async function removeOrganizationFolder(
  dataDirectory: string,
  organizationId: bigint,
): Promise<void> {
  const directory = organizationDirectory(dataDirectory, organizationId);
  await rm(directory, { recursive: true, force: true });
}

/**
 * Removes what organizations left that were deleted while no worker ran, or while one
 * was loading them. Nothing that is published from another database: with the wrong
 * DATABASE_URL nothing may be lost.
 */
export async function removeForgottenFolders(
  database: Database,
  dataDirectory: string,
  shard: Shard,
  isAtWork: (organizationId: bigint) => boolean,
): Promise<void> {
  const identity = await readDatabaseIdentity(database);
  // In this order: the folder of an organization that is new may come at any time.
  const names = await readdir(purchasesDirectory(dataDirectory));
  const present = new Set((await listOrganizations(database)).map(({ id }) => id));
  for (const name of names) {
    const id = name.startsWith('org_') ? decodeId('organization', name) : null;
    if (id === null || present.has(id) || !isOfShard(id, shard) || isAtWork(id)) continue;
    const published = readPublished(organizationDirectory(dataDirectory, id));
    if (published !== null && !isOfDatabase(published.source, identity)) continue;
    await removeOrganizationFolder(dataDirectory, id);
  }
}
