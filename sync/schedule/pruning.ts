import type { Database } from '../../src/postgres/pool.ts';
import {
  pruneChangeLog,
  pruneDeletedOrganizations,
  type RetainedSnapshot,
  renewRetention,
} from '../capture/change-log.ts';
import type { Scheduler } from './scheduler.ts';

/** Returns a function that removes the change-log entries which no file needs any more. */
export function createPruning(
  database: Database,
  dataFolderId: string,
  schedulers: ReadonlyMap<bigint, Scheduler>,
): () => Promise<void> {
  /** The snapshots down to which each organization's changes were pruned. */
  const pruned = new Map<bigint, string>();
  const keyOf = (snapshots: readonly RetainedSnapshot[]) =>
    snapshots.map(({ snapshot }) => snapshot).join();

  return async () => {
    const moved = new Map<bigint, RetainedSnapshot[]>();
    const unmoved: bigint[] = [];
    for (const [id, { replicator }] of schedulers) {
      const snapshots = replicator.retainedSnapshots();
      if (snapshots.length === 0) continue;
      if (keyOf(snapshots) === pruned.get(id)) unmoved.push(id);
      else moved.set(id, snapshots);
    }
    await renewRetention(database, dataFolderId, unmoved);
    if (moved.size > 0) await pruneChangeLog(database, dataFolderId, moved);
    for (const [id, snapshots] of moved) pruned.set(id, keyOf(snapshots));
    await pruneDeletedOrganizations(database);
  };
}
