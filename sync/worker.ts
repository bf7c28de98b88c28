import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DuckDBInstance } from '@duckdb/node-api';
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { organizationDirectory } from '../src/engines/duckdb/published-generation.ts';
import { listOrganizations } from '../src/postgres/organizations.ts';
import type { Database } from '../src/postgres/pool.ts';
import {
  currentSnapshot,
  pruneChangeLog,
  pruneWhatConcernsNobody,
  readNews,
  removeForeignEntries,
} from './change-log.ts';
import { createOrganizationSync, type OrganizationSync } from './organization-sync.ts';

export type WorkerOptions = {
  readonly database: Database;
  readonly instance: DuckDBInstance;
  readonly dataDirectory: string;
  readonly dataFolderId: string;
  readonly concurrency: number;
  readonly pollIntervalMs: number;
  readonly log: Logger;
};

export type Worker = {
  /** One pass: every organization brought up to date. Rejects with all that failed. */
  once(organizations: readonly bigint[]): Promise<void>;
  /** Follows the change log until the signal is aborted. */
  run(signal: AbortSignal): Promise<void>;
  /** Gives up what is at work; whatever is not committed is done again at the next start. */
  close(): Promise<void>;
};

type Task = {
  readonly sync: OrganizationSync;
  readonly log: Logger;
  /** Changes are known that no finished run has applied. */
  waiting: boolean;
  running: boolean;
  /** Not before this time (milliseconds, monotonic). */
  notBefore: number;
  failures: number;
};

// Publishing copies the file: never more often than this, nor more than a
// tenth of the time.
const shortestCadenceMs = 250;
const copyShare = 10;
const organizationsIntervalMs = 500;
const pruneIntervalMs = 5_000;
const longestBackoffMs = 60_000;

export function createWorker(options: WorkerOptions): Worker {
  const { database, instance, dataDirectory, dataFolderId, pollIntervalMs, log } = options;
  const queue = new PQueue({ concurrency: options.concurrency });
  const closing = new AbortController();
  const tasks = new Map<bigint, Task>();
  /** The watermark up to which each organization's changes were pruned. */
  const pruned = new Map<bigint, string>();

  const taskFor = (organizationId: bigint): Task => {
    let task = tasks.get(organizationId);
    if (task === undefined) {
      const taskLog = log.child({ organization: String(organizationId) });
      task = {
        sync: createOrganizationSync({
          organizationId,
          database,
          instance,
          dataDirectory,
          log: taskLog,
        }),
        log: taskLog,
        waiting: true,
        running: false,
        notBefore: 0,
        failures: 0,
      };
      tasks.set(organizationId, task);
    }
    return task;
  };

  const attempt = async (task: Task): Promise<void> => {
    task.running = true;
    // Changes noticed from here on may come too late for this run.
    task.waiting = false;
    const startedAt = performance.now();
    try {
      const { copyMs } = await task.sync.run(closing.signal);
      task.failures = 0;
      task.notBefore = startedAt + Math.max(shortestCadenceMs, copyMs * copyShare);
    } catch (error) {
      task.waiting = true;
      if (closing.signal.aborted) return;
      task.failures += 1;
      const backoff = backoffMs(task.failures);
      task.notBefore = performance.now() + backoff;
      task.log.error({ err: error, retryInMs: Math.round(backoff) }, 'cannot bring up to date');
    } finally {
      task.running = false;
    }
  };

  const startWaiting = () => {
    const now = performance.now();
    for (const task of tasks.values()) {
      if (!task.waiting || task.running || now < task.notBefore) continue;
      task.running = true;
      void queue.add(() => attempt(task));
    }
  };

  const refreshOrganizations = async () => {
    const present = new Set((await listOrganizations(database)).map(({ id }) => id));
    for (const id of present) taskFor(id);
    for (const [id, task] of tasks) {
      if (present.has(id) || task.running) continue;
      tasks.delete(id);
      await task.sync.close();
      // All of it is derived; readers that have a file open keep it until they close it.
      await rm(organizationDirectory(dataDirectory, id), { recursive: true, force: true });
      task.log.info('the organization is gone, and so are its files');
    }
  };

  const prune = async () => {
    const moved = new Map<bigint, string>();
    for (const [id, { sync }] of tasks) {
      const snapshot = sync.watermark()?.snapshot;
      if (snapshot !== undefined && snapshot !== pruned.get(id)) moved.set(id, snapshot);
    }
    if (moved.size > 0) await pruneChangeLog(database, dataFolderId, moved);
    for (const [id, snapshot] of moved) pruned.set(id, snapshot);
    await pruneWhatConcernsNobody(database);
  };

  return {
    async once(organizations) {
      await removeForeignEntries(database);
      const results = await Promise.allSettled(
        organizations.map((id) => queue.add(() => taskFor(id).sync.run(closing.signal))),
      );
      await prune();
      const reasons = results.flatMap((result, index) =>
        result.status === 'rejected'
          ? [`organization ${organizations[index]}: ${result.reason}`]
          : [],
      );
      if (reasons.length > 0) throw new Error(reasons.join('; '));
    },

    async run(signal) {
      const organizationsDue = every(organizationsIntervalMs);
      const pruningDue = every(pruneIntervalMs);
      let snapshot: string | null = null;
      let outages = 0;
      log.info('following changes');
      while (!signal.aborted) {
        try {
          // Whatever came before the first look is found by each organization's next run.
          if (snapshot === null) {
            await removeForeignEntries(database);
            snapshot = await currentSnapshot(database);
            for (const task of tasks.values()) task.waiting = true;
          }
          const news = await readNews(database, snapshot);
          if (organizationsDue()) await refreshOrganizations();
          for (const [id, task] of tasks) {
            if (news.everyOrganization || news.organizations.includes(id)) task.waiting = true;
          }
          snapshot = news.snapshot;
          startWaiting();
          if (pruningDue()) await prune();
          if (outages > 0) log.info('Postgres answers again');
          outages = 0;
        } catch (error) {
          outages += 1;
          // What answers next may be another server, or this one set back.
          snapshot = null;
          if (outages === 1) log.error({ err: error }, 'cannot read the change log; trying on');
        }
        const pause = outages === 0 ? pollIntervalMs : backoffMs(outages, 5_000);
        await sleep(pause, undefined, { signal }).catch(() => {});
      }
    },

    async close() {
      queue.clear();
      closing.abort(new Error('the worker is stopping'));
      await queue.onIdle();
      await Promise.all([...tasks.values()].map((task) => task.sync.close()));
    },
  };
}

/** Doubles from a second to `most`, spread so that many do not retry at once. */
function backoffMs(failures: number, most = longestBackoffMs): number {
  const longest = Math.min(most, 1000 * 2 ** Math.min(failures - 1, 20));
  return longest * (0.5 + Math.random() / 2);
}

/** True at the first call and whenever `intervalMs` have passed since it was last true. */
function every(intervalMs: number): () => boolean {
  let next = 0;
  return () => {
    const now = performance.now();
    if (now < next) return false;
    next = now + intervalMs;
    return true;
  };
}
