import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { DuckDBInstance } from '@duckdb/node-api';
import { withDuckDBConnection } from '../../../src/duckdb/connection.ts';
import { requireSpace } from '../../../src/process/disk-space.ts';
import { syncToDisk } from '../../../src/process/replace-file.ts';
import { loadSavedDelta, type SavedDelta } from '../../../src/purchase-store/delta/saved-delta.ts';
import type { Current } from '../../../src/purchase-store/format/current.ts';
import { type NamedFiles, openStore } from '../../../src/purchase-store/open-store.ts';
import type { StoredSize } from '../../tick/store.ts';
import type { MergeOptions } from './merge-into-base.ts';

/** Readers replay fewer changes as quickly as they load a saved delta. */
const defaultMinUnsavedChanges = 2_500;
/** A share of all changes since the last compaction, because each save writes all of them. */
const minUnsavedShare = 0.125;

/** Whether readers must replay so many changes that saving them is worth it. */
export const isWorthSaving = (
  { changes, unsavedChanges = 0 }: Pick<StoredSize, 'changes' | 'unsavedChanges'>,
  minUnsavedChanges = defaultMinUnsavedChanges,
): boolean => unsavedChanges > Math.max(minUnsavedChanges, changes * minUnsavedShare);

/**
 * Saves the delta of a log with the batches of published ticks, and returns the number of its records. The
 * log is synced first: after a crash of the machine, the log has all that the saved delta shows.
 */
export async function saveDelta(
  { instance, bases, organizationId }: Pick<MergeOptions, 'instance' | 'bases' | 'organizationId'>,
  directory: string,
  files: NamedFiles,
  published: number,
): Promise<number> {
  const log = join(directory, files.log);
  requireSpace(directory, 2 * statSync(log).size);
  await syncToDisk(log);
  return withDuckDBConnection(instance, async (connection) => {
    const options = { published, catalog: `saving_${organizationId}` };
    const store = await openStore(connection, bases, directory, files, options);
    try {
      await store.save(connection);
      return store.part().records;
    } finally {
      await store.close(connection);
    }
  });
}

/** The records that the saved delta of a log shows; 0 if there is none. */
export async function readSavedRecords(
  instance: DuckDBInstance,
  directory: string,
  files: Pick<Current, 'base' | 'log'>,
): Promise<number> {
  let records = 0;
  const note = (saved: SavedDelta) => {
    records = saved.records;
    // With false, nothing is loaded.
    return false;
  };
  await withDuckDBConnection(instance, (connection) =>
    loadSavedDelta(connection, 'unused', directory, files, note),
  );
  return records;
}
