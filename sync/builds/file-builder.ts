import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { DuckDBInstance } from '@duckdb/node-api';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { removeSavedDelta } from '../../src/purchase-store/delta/saved-delta.ts';
import { organizationDirectory } from '../../src/purchase-store/format/current.ts';
import { DamagedLogError } from '../../src/purchase-store/format/log.ts';
import { createBases } from '../../src/purchase-store/open-store.ts';
import { streamChanges } from '../capture/changed-purchases.ts';
import { readSince } from '../capture/missing-changes.ts';
import type { Watermark } from '../capture/watermark.ts';
import type { FileStore } from '../files/file-store.ts';
import { createLogFile, type NewLog, publishedBatches, visibleAtOnce } from '../files/log-files.ts';
import type { Organization } from '../organization.ts';
import { maxLogBytes, TooManyBytesError } from '../tick/byte-limits.ts';
import type { ChangeGap } from '../tick/store.ts';
import { unfinishedBasePath } from './base-file.ts';
import type { Builder, BuildOptions } from './builder.ts';
import { compact } from './compact/compact.ts';
import { type MergeOptions, mergeIntoBase } from './compact/merge-into-base.ts';
import { isWorthSaving, readSavedRecords, saveDelta } from './compact/save-delta.ts';
import { loadLarge } from './load/load-large.ts';
import { findSmall, loadSmall } from './load/load-small.ts';
import { createGapLog, discardFiles, prepare } from './new-files.ts';

export type FileBuilderOptions = {
  readonly database: Database;
  readonly instance: DuckDBInstance;
  readonly dataDirectory: string;
  /** Rows that a load reads in one transaction; smaller in tests. */
  readonly loadChunkRows?: number | undefined;
  /** An organization with no more purchases has no base: its log holds all of them. Smaller in tests. */
  readonly maxPurchasesWithoutBase?: number | undefined;
  /** If readers must replay more changes, the delta is saved; smaller in tests. */
  readonly minUnsavedChanges?: number | undefined;
};

const defaultMaxPurchasesWithoutBase = 5_000;

/** Purchases of organizations that are loaded in one transaction. */
const maxGroupPurchases = 50_000;

export function createFileBuilder(store: FileStore, options: FileBuilderOptions): Builder {
  const { database, dataDirectory, instance, loadChunkRows: chunkRows } = options;
  const { maxPurchasesWithoutBase: maxSmall = defaultMaxPurchasesWithoutBase } = options;
  const bases = createBases(instance, () => null);
  const directoryOf = ({ id }: Organization) => organizationDirectory(dataDirectory, id);
  const mergeOptions = ({ id }: Organization, { signal }: BuildOptions): MergeOptions => ({
    instance,
    dataDirectory,
    organizationId: id,
    bases,
    signal,
    chunkRows,
  });

  return {
    async groupLoads(organizations) {
      const ids = organizations.map(({ id }) => id);
      const small = await findSmall(database, ids, maxSmall);
      const interrupted: Organization[][] = [];
      const groups: Organization[][] = [];
      let group: Organization[] = [];
      let purchases = 0;
      for (const organization of organizations) {
        const count = small.get(organization.id);
        if (count === undefined) {
          const path = unfinishedBasePath(directoryOf(organization));
          (existsSync(path) ? interrupted : groups).push([organization]);
          continue;
        }
        if (purchases + count > maxGroupPurchases) {
          groups.push(group);
          group = [];
          purchases = 0;
        }
        group.push(organization);
        purchases += count;
      }
      // Interrupted loads first: until one resumes, the change log may be pruned beyond its beginning.
      return [...interrupted, ...(group.length === 0 ? [] : [group]), ...groups];
    },

    async load(organizations, build) {
      const [organization] = organizations as [Organization];
      const small = await findSmall(database, [organization.id], maxSmall);
      const isSmall = organizations.length > 1 || small.size > 0;
      if (isSmall) {
        try {
          return await loadSmall(store, options, organizations, build);
        } catch (error) {
          const needsBase = error instanceof TooManyBytesError && organizations.length === 1;
          if (!needsBase) throw error;
        }
      }
      return [await loadLarge(store, { ...options, bases }, organization, build)];
    },

    async catchUp(organization, tick, build) {
      const published = store.published(organization.id);
      if (published === null) throw new Error('nothing is published');
      const { current } = published;
      const log = createLogFile(directoryOf(organization));
      const gap = createGapLog(dataDirectory, organization.id);
      const copied = { organization, base: current.base, log, purchases: current.purchases };
      try {
        const path = join(directoryOf(organization), current.log);
        let copiedBytes = 0;
        for (const batch of publishedBatches(path, tick)) {
          log.append(batch);
          copiedBytes = batch.end;
        }
        if (copiedBytes !== published.end.bytes) throw new DamagedLogError('it lacks batches');
        const since = await appendChanges(database, organization, { log, gap }, build);
        gap.until = since;
        const merged = await mergeIntoBase(
          mergeOptions(organization, build),
          { ...current, log: log.name, logBytes: log.end().bytes },
          visibleAtOnce,
        );
        log.remove();
        const { base, purchases } = merged;
        const files = {
          organization,
          base,
          purchases,
          log: createLogFile(directoryOf(organization)),
        };
        return prepare(store, dataDirectory, files, since, gap);
      } catch (error) {
        gap.log?.remove();
        await discardFiles(store, dataDirectory, copied);
        throw error;
      }
    },

    compact: (organization, publishedTick, build) =>
      compact(store, dataDirectory, organization, publishedTick, {
        ...mergeOptions(organization, build),
        maxPurchasesWithoutBase: maxSmall,
        minUnsavedChanges: options.minUnsavedChanges,
      }),

    isReplayLong: (size) => isWorthSaving(size, options.minUnsavedChanges),

    async saveDelta(id, tick) {
      const published = store.published(id);
      if (published === null) throw new Error('nothing is published');
      const { current, savedRecords } = published;
      const directory = organizationDirectory(dataDirectory, id);
      if (savedRecords === undefined) {
        // An earlier worker may have saved a delta.
        store.noteSaved(id, current.log, await readSavedRecords(instance, directory, current));
        const size = store.sizeOf(id);
        if (size === null || !isWorthSaving(size, options.minUnsavedChanges)) return;
      }
      const location = { instance, bases, organizationId: id };
      const records = await saveDelta(location, directory, current, tick);
      store.noteSaved(id, current.log, records);
      // Another log may have replaced this one meanwhile.
      if (store.published(id)?.current.log !== current.log)
        removeSavedDelta(directory, current.log);
    },
  };
}

/**
 * Appends the changes since the organization's watermark. Returns the watermark of the log.
 * Rejects with TooManyBytesError if the log has more than a merge can hold.
 */
async function appendChanges(
  database: Database,
  { id, watermark: since }: Organization,
  { log, gap }: { readonly log: NewLog; readonly gap: ChangeGap },
  { signal, onRetain }: BuildOptions,
): Promise<Watermark> {
  if (since === null) throw new Error('nothing is published');
  onRetain(since.snapshot);
  const { watermark } = await readSince(database, since, async (connection) => {
    for await (const [, records] of streamChanges(connection, [id], since.snapshot)) {
      signal.throwIfAborted();
      gap.append(records);
      log.append(records);
      if (log.end().bytes > maxLogBytes) throw new TooManyBytesError(id);
    }
  });
  return watermark;
}
