import { statSync } from 'node:fs';
import { join } from 'node:path';
import { createWaiters, type Waiters } from '../../domain/waiters.ts';
import { currentFile, organizationDirectory, stampOf } from '../format/current.ts';
import type { TickReader } from '../ticks/published-tick.ts';

/** A request waits for changes of its organization after the end of its log. */
export type Wanted = {
  readonly organizationId: bigint;
  /** The stamp of the file CURRENT that names the log. */
  readonly stamp: string;
  readonly log: string;
  /** The end of the published batches that the request has read. */
  readonly end: number;
};

const intervalMs = 50;
/** Joins and builds publish without a new snapshot, so all requests are checked at least this often. */
const maxSweepAgeMs = 1_000;

/** Looks for changes of waiting requests. */
export function createChangeWatcher(dataDirectory: string, ticks: TickReader): Waiters<Wanted> {
  let seen = '';
  let sweptAt = 0;
  return createWaiters<Wanted>(intervalMs, (waiters) => {
    // Ticks are read before the logs, so that the logs have all that the ticks have published.
    const snapshots = ticks.snapshots();
    const now = performance.now();
    const isWhole = now - sweptAt >= maxSweepAgeMs;
    if (snapshots === seen && !isWhole) return;
    seen = snapshots;
    if (isWhole) sweptAt = now;
    /** Results of this sweep, because several requests may wait at the same position. */
    const known = new Map<string, boolean>();
    for (const { organizationId, stamp, log, end, wake } of waiters) {
      const key = `${log} ${end} ${stamp}`;
      let isSame = known.get(key);
      if (isSame === undefined) {
        const directory = organizationDirectory(dataDirectory, organizationId);
        const size = statSync(join(directory, log), { throwIfNoEntry: false })?.size;
        isSame = size === end && (!isWhole || stampOf(currentFile(directory)) === stamp);
        known.set(key, isSame);
      }
      if (!isSame) wake();
    }
  });
}
