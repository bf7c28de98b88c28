import type { ReplicatorOptions, Store } from '../schedule/store.ts';
import { removeOrganizationFolder, removeOrphanedFolders } from './folders.ts';
import { createIdleFiles } from './idle-files.ts';
import { createReplicator, type FileReplicatorOptions } from './replicator.ts';

export type FileStoreOptions = Omit<
  FileReplicatorOptions,
  keyof ReplicatorOptions | 'idleFiles'
> & {
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
