import { join } from 'node:path';
import { invalidatesInstance } from '../../../src/duckdb/damage.ts';
import { organizationDirectory } from '../../../src/purchase-store/format/current.ts';
import { DamagedLogError, linesById } from '../../../src/purchase-store/format/log.ts';
import { isUpsert, type Records } from '../../capture/changed-purchases.ts';
import { isFileDamage } from '../../describe-failure.ts';
import type { FileStore } from '../../files/file-store.ts';
import {
  changesIn,
  createLogFile,
  publishedBatches,
  visibleAtOnce,
} from '../../files/log-files.ts';
import type { Organization } from '../../organization.ts';
import { maxBytesWithoutBase } from '../../tick/byte-limits.ts';
import type { Compacted } from '../builder.ts';
import { discardFiles, type NewFiles, noGap, publishFiles } from '../new-files.ts';
import { type MergeOptions, mergeIntoBase } from './merge-into-base.ts';
import { isWorthSaving, saveDelta } from './save-delta.ts';

/** Merges base and log into a new base; or shortens the log if its few purchases need no base. */
export async function compact(
  store: FileStore,
  dataDirectory: string,
  organization: Organization,
  publishedTick: () => number,
  options: MergeOptions & {
    readonly maxPurchasesWithoutBase: number;
    readonly minUnsavedChanges: number | undefined;
  },
): Promise<Compacted> {
  const current = store.published(organization.id)?.current;
  if (current === undefined) throw new Error('nothing is published');
  const directory = organizationDirectory(dataDirectory, organization.id);
  const path = join(directory, current.log);
  const tick = publishedTick();
  const shortened =
    current.base === null ? shorten(path, tick, options.maxPurchasesWithoutBase) : null;
  const log = createLogFile(directory);
  let files: NewFiles = { organization, base: null, log, purchases: 0 };
  try {
    if (shortened !== null) log.append(shortened.records);
    const { base, purchases, ...merged } =
      shortened ?? (await mergeIntoBase(options, current, tick));
    let { mergedBytes } = merged;
    const appendUntil = (published: number) => {
      for (const batch of publishedBatches(path, published, mergedBytes)) {
        log.append(batch);
        mergedBytes = batch.end;
      }
    };
    files = { ...files, base, purchases };
    appendUntil(publishedTick());
    const compacted = { ...current, base, log: log.name, logBytes: 0, purchases };
    // Queries after the publication wait while they replay the log.
    if (
      isWorthSaving(changesIn({ current: compacted, end: log.end() }), options.minUnsavedChanges)
    ) {
      const saving = saveDelta(options, directory, compacted, visibleAtOnce);
      // After other failures, the worker tries again when the compaction is published.
      const savedRecords = await saving.catch((error) => {
        if (isFileDamage(error) || invalidatesInstance(error)) throw error;
        return 0;
      });
      files = { ...files, savedRecords };
    }
    return {
      async publish(published, watermark) {
        // A load or a repair has replaced the log meanwhile.
        if (store.published(organization.id)?.current.log !== current.log) {
          throw new Error('other files were published during the compaction');
        }
        appendUntil(published);
        if (mergedBytes !== store.published(organization.id)?.end.bytes) {
          throw new DamagedLogError('it lacks batches');
        }
        await publishFiles(store, files, noGap, published, watermark);
      },
      discard: () => discardFiles(store, dataDirectory, files),
    };
  } catch (error) {
    await discardFiles(store, dataDirectory, files);
    throw error;
  }
}

type Shortened = {
  readonly base: null;
  readonly purchases: number;
  readonly mergedBytes: number;
  readonly records: Records;
};

/** The last record of each purchase; null if the purchases are too many, or have too much text. */
function shorten(path: string, published: number, max: number): Shortened | null {
  const last = new Map<string, Buffer>();
  let mergedBytes = 0;
  for (const { lines, end } of publishedBatches(path, published)) {
    for (const [id, line] of linesById(lines)) {
      if (isUpsert(line)) last.set(id, line);
      else last.delete(id);
    }
    if (last.size > max) return null;
    mergedBytes = end;
  }
  const lines = Buffer.concat([...last.values()]);
  if (lines.length > maxBytesWithoutBase) return null;
  const records = { lines, records: last.size };
  return { base: null, purchases: last.size, mergedBytes, records };
}
