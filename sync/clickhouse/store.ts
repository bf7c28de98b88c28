import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { removeOrganizationFolder, removeOrphanedFolders } from '../files/folders.ts';
import type { Store } from '../schedule/store.ts';
import { createClickHouseReplicator } from './replicator.ts';

export type ClickHouseStoreOptions = {
  readonly database: Database;
  readonly clickhouse: ClickHouse;
  readonly dataDirectory: string;
  readonly dataFolderId: string;
};

/** Publishes in ClickHouse. The data folder has the reports and requests of the worker only. */
export function createClickHouseStore(options: ClickHouseStoreOptions): Store {
  const { database, dataDirectory } = options;
  const unfinishedLoads = new Set<string>();
  return {
    createReplicator: (organization) =>
      createClickHouseReplicator({ ...options, ...organization, unfinishedLoads }),
    confirm() {},
    remove: (organizationId) => removeOrganizationFolder(dataDirectory, organizationId),
    tidy: (shard, isInUse) => removeOrphanedFolders(database, dataDirectory, shard, isInUse),
    freeMemory: () => Promise.resolve(),
  };
}
