import type { Logger } from 'pino';
import { raw } from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { createTables } from '../../src/engines/clickhouse/schema.ts';
import { listOrganizations } from '../../src/postgres/organizations.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { isOfDatabase, readDatabaseIdentity } from '../../src/postgres/source-identity.ts';
import { removeOrganizationFolder, removeOrphanedFolders } from '../files/folders.ts';
import type { Store } from '../schedule/store.ts';
import { isOfShard, type Shard } from '../shard.ts';
import { createConfirmations } from './confirmations.ts';
import { readNewestOf } from './generations.ts';
import { createLoadPruning, readLoads, removeOrganization } from './loads.ts';
import { createClickHouseReplicator } from './replicator.ts';

export type ClickHouseStoreOptions = {
  readonly database: Database;
  readonly clickhouse: ClickHouse;
  readonly dataDirectory: string;
  readonly dataFolderId: string;
  readonly log: Logger;
  /** For how long an unused load stays; shorter in tests. */
  readonly graceMs?: number;
};

/** Publishes in ClickHouse. The data folder has the reports and requests of the worker only. */
export function createClickHouseStore(options: ClickHouseStoreOptions): Store {
  const { database, clickhouse, dataDirectory } = options;
  const unfinishedLoads = new Set<string>();
  const pruneLoads = createLoadPruning(clickhouse, unfinishedLoads, options.graceMs);
  let tables: Promise<void> | null = null;

  /** The server may be unavailable at first, so a failure is repeated. */
  const requireTables = (): Promise<void> => {
    tables ??= createAll(clickhouse).catch((error) => {
      tables = null;
      throw error;
    });
    return tables;
  };

  /** Generations of another database stay: DATABASE_URL may be wrong. */
  const removeOrphans = async (shard: Shard, isInUse: (id: bigint) => boolean) => {
    const identity = await readDatabaseIdentity(database);
    const loads = await readLoads(clickhouse);
    const present = new Set((await listOrganizations(database)).map(({ id }) => id));
    const orphans = [...loads.keys()].filter(
      (id) => isOfShard(id, shard) && !present.has(id) && !isInUse(id),
    );
    for (const [id, { watermark }] of await readNewestOf(clickhouse, orphans)) {
      if (isOfDatabase(watermark.source, identity)) await removeOrganization(clickhouse, id);
    }
  };

  return {
    createReplicator: (organization) =>
      createClickHouseReplicator({ ...options, ...organization, requireTables, unfinishedLoads }),
    confirm: createConfirmations(clickhouse, options.log),
    async remove(organizationId) {
      await removeOrganization(clickhouse, organizationId);
      await removeOrganizationFolder(dataDirectory, organizationId);
    },
    async cleanUp(shard, isInUse) {
      await removeOrphanedFolders(database, dataDirectory, shard, isInUse);
      await requireTables();
      await removeOrphans(shard, isInUse);
      await pruneLoads((id) => isOfShard(id, shard));
    },
    freeMemory: () => Promise.resolve(),
  };
}

async function createAll(clickhouse: ClickHouse): Promise<void> {
  for (const table of createTables(clickhouse.cluster)) await clickhouse.run(raw(table));
}
