import { randomBytes } from 'node:crypto';
import { closeSync, fstatSync, openSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { requireSpace } from '../../src/process/disk-space.ts';
import { removeSavedDelta } from '../../src/purchase-store/delta/saved-delta.ts';
import {
  type Current,
  type ReplacedLog,
  readCurrent,
} from '../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../src/purchase-store/format/layout.ts';
import {
  appendBatches,
  emptyLog,
  type LogEnd,
  readLines,
  recoverLog,
  scanLog,
} from '../../src/purchase-store/format/log.ts';
import type { Records } from '../capture/changed-purchases.ts';
import { DamagedFilesError } from '../describe-failure.ts';

/** The tick of batches that are visible as soon as CURRENT names their log. */
export const visibleAtOnce = 0;

/** A log that a build writes beside the published one. */
export type NewLog = {
  readonly name: string;
  readonly path: string;
  end(): LogEnd;
  /**
   * Appends records, which are visible as soon as CURRENT names the log, or with a later tick. Throws if the
   * disk lacks space.
   */
  append(records: Records, tick?: number): void;
  remove(): void;
};

export function createLogFile(directory: string): NewLog {
  const name = `log-${randomBytes(6).toString('hex')}.tsv`;
  const path = join(directory, name);
  writeFileSync(path, '', { flag: 'wx' });
  let end = emptyLog;
  return {
    name,
    path,
    end: () => end,
    append({ lines }, tick = visibleAtOnce) {
      requireSpace(directory, lines.length);
      end = appendBatches(path, end, { tick, lines });
    },
    remove: () => rmSync(path, { force: true }),
  };
}

/** The batches of ticks up to `published` after the first `from` bytes. `end` is the end of each. */
export function* publishedBatches(
  path: string,
  published: number,
  from = 0,
): Generator<Records & { readonly end: number }> {
  const descriptor = openSync(path, 'r');
  try {
    const { size } = fstatSync(descriptor);
    for (const batch of scanLog(descriptor, from, size, published)) {
      yield { lines: readLines(descriptor, batch), records: batch.records, end: batch.end };
    }
  } finally {
    closeSync(descriptor);
  }
}

/** The changes in a log since the last load or compaction. */
export function changesIn({ current, end, savedRecords = 0 }: Omit<PublishedLog, 'endTick'>) {
  const { base, purchases, logBytes } = current;
  const { bytes, totalRecords } = end;
  // Without a base, the log begins with the purchases themselves.
  const before = base === null ? { records: purchases, bytes: logBytes } : nothingBefore;
  return {
    changes: Math.max(0, totalRecords - before.records),
    changeBytes: Math.max(0, bytes - before.bytes),
    unsavedChanges: Math.max(0, totalRecords - Math.max(before.records, savedRecords)),
  };
}

const nothingBefore = { records: 0, bytes: 0 };

/** The published log of an organization. The records of a damaged one are unknown. */
export type PublishedLog = {
  current: Current;
  end: LogEnd;
  /** The first tick with this end of this log. */
  endTick: number;
  /** The records that its saved delta shows, as far as this worker knows. */
  savedRecords?: number;
  readonly isDamaged?: true;
};

/** Null if nothing is published, or in another layout. Throws DamagedFilesError if CURRENT is invalid. */
export function readFiles(directory: string): Current | null {
  try {
    return readCurrent(directory, layoutVersion);
  } catch (error) {
    // Only errors of the file system have a code.
    if ((error as NodeJS.ErrnoException).code !== undefined) throw error;
    throw new DamagedFilesError('CURRENT is invalid', { cause: error });
  }
}

/**
 * Removes the batches of ticks later than `published` from a log, and returns its end. Throws
 * DamagedFilesError if base or log are missing, and DamagedLogError if the log is damaged, or ends before
 * `logEnd`.
 */
export function recoverPublished(
  directory: string,
  { base, log }: Current,
  published: number,
  logEnd: number,
): LogEnd {
  for (const name of [base, log]) {
    if (name === null) continue;
    if (statSync(join(directory, name), { throwIfNoEntry: false })?.isFile() === true) continue;
    throw new DamagedFilesError(`${name} is missing`);
  }
  // Other batches may follow in the place of those that are cut off.
  const beforeCut = () => removeSavedDelta(directory, log);
  return recoverLog(join(directory, log), published, logEnd, beforeCut);
}

/** How long replaced logs stay for the change feed, and how many bytes those of an organization take. */
export type ChangesRetention = {
  readonly changesRetentionMs: number;
  readonly changesMaxBytes: number;
};

/** Replaced logs do not stay. */
export const noRetention: ChangesRetention = { changesRetentionMs: 0, changesMaxBytes: 0 };

/**
 * The change feed after the published log has been replaced. `gap` has the changes between what both
 * show; null if they show the same.
 */
export function replacedLogs({ current, end }: PublishedLog, gap: NewLog | null): ReplacedLog[] {
  const replacedAt = Date.now();
  const { log, logBytes: begin } = current;
  return [
    ...current.replacedLogs,
    { log, begin, end: end.bytes, replacedAt },
    ...(gap === null ? [] : [{ log: gap.name, begin: 0, end: gap.end().bytes, replacedAt }]),
  ];
}

/** The newest replaced logs that stay. Logs before a removed one are removed too, so the feed has no gaps. */
export function retainedLogs(
  logs: readonly ReplacedLog[],
  { changesRetentionMs, changesMaxBytes }: ChangesRetention,
): ReplacedLog[] {
  const oldest = Date.now() - changesRetentionMs;
  let bytes = 0;
  const removed = logs.findLastIndex(({ end, replacedAt }) => {
    bytes += end;
    return bytes > changesMaxBytes || replacedAt <= oldest;
  });
  return logs.slice(removed + 1);
}
