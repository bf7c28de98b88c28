import type { Replicator } from '../schedule/replicator.ts';
import type { ReplicatorOptions, Store } from '../schedule/store.ts';
import { createBuildThreads } from './build-threads.ts';
import { removeOrganizationFolder, removeOrphanedFolders } from './folders.ts';
import { createIdleFiles } from './idle-files.ts';
import { createReplicator, type FileReplicatorOptions } from './replicator.ts';

export type FileStoreOptions = Omit<
  FileReplicatorOptions,
  keyof ReplicatorOptions | 'idleFiles'
> & {
  /** Unused files that stay open. */
  readonly maxIdleFiles: number;
  /** Threads of `instance` during builds. */
  readonly buildThreads: number;
};

/** Publishes DuckDB files in the data folder. */
export function createFileStore(options: FileStoreOptions): Store {
  const { database, dataDirectory, instance } = options;
  const withBuildThreads = createBuildThreads(instance, options.buildThreads);
  const idleFiles = createIdleFiles(options.maxIdleFiles);
  return {
    createReplicator(organization) {
      const replicator = createReplicator({ ...options, ...organization, idleFiles });
      const build: Replicator['build'] = (...args) =>
        withBuildThreads(() => replicator.build(...args));
      return { ...replicator, build };
    },
    // The worker's record in the data folder suffices.
    confirm() {},
    remove: (organizationId) => removeOrganizationFolder(dataDirectory, organizationId),
    cleanUp: (shard, isInUse) => removeOrphanedFolders(database, dataDirectory, shard, isInUse),
    freeMemory: () => idleFiles.closeAll(),
  };
}
