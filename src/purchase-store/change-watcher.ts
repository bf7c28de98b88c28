import { statSync } from 'node:fs';
import { join } from 'node:path';
import { currentFile, organizationDirectory, stampOf } from './current.ts';
import type { TickReader } from './tick-file.ts';

/** A request waits for changes of its organization after the end of its log. */
type Wanted = {
  readonly organizationId: bigint;
  /** Of the file CURRENT that names the log. */
  readonly stamp: string;
  readonly log: string;
  /** The end of what the tick that was read last has published. */
  readonly end: number;
  /** Monotonic milliseconds. */
  readonly deadline: number;
};

type Waiter = { readonly deadline: number; readonly end: () => void };

type Group = {
  readonly logPath: string;
  readonly currentPath: string;
  readonly stamp: string;
  readonly end: number;
  readonly waiters: Set<Waiter>;
};

export type ChangeWatcher = {
  /** Resolves when there may be changes, at the deadline, or if `ended` is aborted. Rejects with the reason of `signal`. */
  wait(wanted: Wanted, signal?: AbortSignal, ended?: AbortSignal): Promise<void>;
  close(): void;
};

const intervalMs = 50;
/** Joins and builds publish without a new snapshot, and some replace CURRENT. */
const maxSweepAgeMs = 1_000;

/** Looks for changes of all waiting requests with one timer. Without requests there is none. */
export function createChangeWatcher(dataDirectory: string, ticks: TickReader): ChangeWatcher {
  const groups = new Map<string, Group>();
  let timer: NodeJS.Timeout | null = null;
  let seen = '';
  let sweptAt = 0;

  const endGroup = (key: string, { waiters }: Group): void => {
    groups.delete(key);
    for (const { end } of waiters) end();
  };

  const sweep = (): void => {
    const now = performance.now();
    for (const { waiters } of groups.values()) {
      for (const { deadline, end } of waiters) if (deadline <= now) end();
    }
    // Before the logs: these then have all that the ticks have published.
    const snapshots = ticks.snapshots();
    const isWhole = now - sweptAt >= maxSweepAgeMs;
    if (snapshots === seen && !isWhole) return;
    seen = snapshots;
    if (isWhole) sweptAt = now;
    for (const [key, group] of groups) {
      const size = statSync(group.logPath, { throwIfNoEntry: false })?.size;
      const isSame = size === group.end && (!isWhole || stampOf(group.currentPath) === group.stamp);
      if (!isSame) endGroup(key, group);
    }
  };

  const stopIfIdle = (): void => {
    if (groups.size > 0 || timer === null) return;
    clearInterval(timer);
    timer = null;
  };

  const groupOf = ({ organizationId, stamp, log, end }: Wanted): [string, Group] => {
    const key = `${log} ${end} ${stamp}`;
    const known = groups.get(key);
    if (known !== undefined) return [key, known];
    const directory = organizationDirectory(dataDirectory, organizationId);
    const group: Group = {
      ...{ logPath: join(directory, log), currentPath: currentFile(directory), stamp, end },
      waiters: new Set(),
    };
    groups.set(key, group);
    return [key, group];
  };

  return {
    async wait(wanted, signal, ended) {
      signal?.throwIfAborted();
      if (ended?.aborted === true) return;
      const [key, group] = groupOf(wanted);
      timer ??= setInterval(sweep, intervalMs);
      await new Promise<void>((resolve) => {
        const end = () => {
          signal?.removeEventListener('abort', end);
          ended?.removeEventListener('abort', end);
          group.waiters.delete(waiter);
          if (group.waiters.size === 0 && groups.get(key) === group) groups.delete(key);
          stopIfIdle();
          resolve();
        };
        const waiter: Waiter = { deadline: wanted.deadline, end };
        group.waiters.add(waiter);
        signal?.addEventListener('abort', end, { once: true });
        ended?.addEventListener('abort', end, { once: true });
      });
      signal?.throwIfAborted();
    },

    close() {
      for (const [key, group] of groups) endGroup(key, group);
      stopIfIdle();
    },
  };
}
