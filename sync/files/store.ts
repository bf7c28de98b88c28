import type { DuckDBInstance } from '@duckdb/node-api';
import type { Database } from '../../src/postgres/pool.ts';
import type { Store } from '../schedule/store.ts';
import { removeOrganizationFolder, removeOrphanedFolders } from './folders.ts';
import { createIdleFiles } from './idle-files.ts';
import { createReplicator } from './replicator.ts';

export type FileStoreOptions = {
  readonly database: Database;
  readonly instance: DuckDBInstance;
  readonly dataDirectory: string;
  readonly dataFolderId: string;
  /** Unused files that stay open. */
  readonly maxIdleFiles: number;
};

/** Publishes DuckDB files in the data folder. */
export function createFileStore(options: FileStoreOptions): Store {
  const { database, dataDirectory } = options;
  const idleFiles = createIdleFiles(options.maxIdleFiles);
  return {
    createReplicator: (organization) =>
      createReplicator({ ...options, ...organization, idleFiles }),
    // The worker's record in the data folder suffices.
    confirm() {},
    remove: (organizationId) => removeOrganizationFolder(dataDirectory, organizationId),
    cleanUp: (shard, isInUse) => removeOrphanedFolders(database, dataDirectory, shard, isInUse),
    freeMemory: () => idleFiles.closeAll(),
  };
}
