import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { backoffMs } from '../../src/backoff.ts';
import { loggedWait } from '../../src/commands/database.ts';
import { createInstance } from '../../src/duckdb/connection.ts';
import { maxIdle } from '../../src/duckdb/memory.ts';
import { createLog } from '../../src/log.ts';
import { OperatorError } from '../../src/operator-error.ts';
import { breakConnections, createPool, type Database } from '../../src/postgres/pool.ts';
import { requireDatabase } from '../../src/postgres/require-database.ts';
import { closePrivateFolders } from '../../src/private-files.ts';
import { requireDatabaseUrl, type Settings } from '../../src/settings.ts';
import { describeFailure } from '../failure.ts';
import { dataFolderId, readDataFolderId } from '../files/data-folder.ts';
import { createWorker, type Worker, type WorkerOptions } from '../schedule/worker.ts';
import { everyOrganization, type Shard } from '../shard.ts';
import { createProgressBars } from '../status/progress-bars.ts';
import { prepareSession } from './session.ts';
import { tryWorkerLock, type WorkerLock, waitForWorkerLock } from './worker-lock.ts';

/** Where a worker works, and on what. */
export type WorkerContext = {
  readonly settings: Settings;
  readonly databaseUrl: string;
  readonly database: Database;
  readonly folderId: string;
  readonly log: Logger;
  readonly onReport: NonNullable<WorkerOptions['onReport']>;
};

/** What a command needs: `primary` to write, as it keeps its lock there; `any` to write nothing. */
export type WorkerContextNeeds = {
  readonly server: 'primary' | 'any';
  readonly stopped?: AbortSignal;
};

export async function withWorkerContext(
  settings: Settings,
  { server, stopped }: WorkerContextNeeds,
  work: (context: WorkerContext) => Promise<void>,
): Promise<void> {
  const { dataDirectory } = settings;
  const databaseUrl = requireDatabaseUrl(settings);
  const bars = createProgressBars();
  const log = createLog('sync', settings.logLevel, bars?.logDestination);
  const onReport = bars?.show ?? (() => {});
  try {
    const isUsable = await requireDatabase(
      databaseUrl,
      { isPrimary: server === 'primary' },
      loggedWait(settings, log, stopped),
    );
    if (isUsable) {
      await withPool(settings, databaseUrl, async (database) => {
        const folderId = await (server === 'any' ? readDataFolderId : dataFolderId)(dataDirectory);
        if (server === 'primary') closePrivateFolders(dataDirectory);
        await work({ settings, databaseUrl, database, folderId, log, onReport });
      });
    }
  } finally {
    bars?.stop();
  }
}

async function withPool(
  { syncConcurrency }: Settings,
  databaseUrl: string,
  work: (database: Database) => Promise<void>,
): Promise<void> {
  // One connection for each organization that is followed or built, and one each for
  // the change log, verifying, waiting for the disk, and what is asked beside that.
  const database = createPool(databaseUrl, {
    max: 2 * syncConcurrency + 4,
    applicationName: 'crm-data-service sync',
    onConnect: prepareSession,
  });
  try {
    await work(database);
  } finally {
    await database.end();
  }
}

// A worker that was killed a moment ago may still be known to Postgres.
const lockPatienceMs = 5_000;

/**
 * Runs `work` with the only worker of the data folder. Where another process has
 * that, `otherwise` is run instead.
 */
export async function withOnlyWorker(
  context: WorkerContext,
  work: (worker: Worker) => Promise<void>,
  otherwise?: () => Promise<void>,
): Promise<void> {
  const { databaseUrl, folderId } = context;
  const refuse = async () => {
    const { dataDirectory } = context.settings;
    throw new OperatorError(
      `Another sync worker is at work on ${dataDirectory}; only one may be at a time.`,
    );
  };
  // Whoever has an alternative need not wait.
  const patienceMs = otherwise === undefined ? lockPatienceMs : 0;
  const lock = await waitForWorkerLock(
    databaseUrl,
    folderId,
    everyOrganization,
    'command',
    patienceMs,
  );
  if (lock === null) {
    await (otherwise ?? refuse)();
    return;
  }
  try {
    await withWorker(context, {}, async (worker) => {
      breakConnectionsWith(lock, context);
      lock.lost.addEventListener('abort', () => void worker.close());
      await work(worker).catch((error) => {
        if (!lock.lost.aborted) throw error;
        // What failed, failed because of that.
        throw new OperatorError(
          "The connection to Postgres that holds the worker's lock was lost. Run the command again.",
        );
      });
    });
  } finally {
    await lock.release();
  }
}

const standbyIntervalMs = 500;
const restartPauseMs = 1_000;

/**
 * Follows changes until `stopped`: at once, or in standby until the worker that
 * has the lock is gone. If the lock is lost, all work ends until it is regained.
 */
export async function followChanges(
  context: WorkerContext,
  options: Partial<WorkerOptions>,
  stopped: AbortSignal,
): Promise<void> {
  const { log } = context;
  while (!stopped.aborted) {
    const lock = await standBy(context, options.shard ?? everyOrganization, stopped);
    if (lock === null) return;
    breakConnectionsWith(lock, context);
    try {
      const ending = AbortSignal.any([stopped, lock.lost]);
      await withWorker(context, options, (worker) => worker.run(ending));
    } finally {
      await lock.release();
    }
    if (stopped.aborted) return;
    if (lock.lost.aborted) {
      log.warn('the connection to Postgres that holds the lock was lost; getting it again');
    } else {
      // Where DuckDB gives up again and again, not more often than this.
      await sleep(restartPauseMs, undefined, { signal: stopped }).catch(() => {});
    }
  }
}

/** What takes the lock has taken answers that are waited for, too. */
function breakConnectionsWith({ lost }: WorkerLock, { database }: WorkerContext): void {
  lost.addEventListener('abort', () => breakConnections(database));
}

async function standBy(
  { databaseUrl, folderId, log }: WorkerContext,
  shard: Shard,
  stopped: AbortSignal,
): Promise<WorkerLock | null> {
  let told: string | null = null;
  const tell = (news: string, advice?: string) => {
    if (told !== news) log.info({ advice }, news);
    told = news;
  };
  for (let failures = 0; !stopped.aborted; ) {
    let pauseMs = standbyIntervalMs * (0.5 + Math.random());
    try {
      const lock = await tryWorkerLock(databaseUrl, folderId, shard);
      if (lock !== null) return lock;
      failures = 0;
      tell('another worker is at work on this data; standing by to take over');
    } catch (error) {
      failures += 1;
      pauseMs = backoffMs(failures, 5_000);
      const { message, advice } = describeFailure(error);
      tell(message, advice);
    }
    await sleep(pauseMs, undefined, { signal: stopped }).catch(() => {});
  }
  return null;
}

/** To open one again is a small part of what publishing it takes. */
const memoryOfIdleFile = 4 * 2 ** 20;

async function withWorker(
  { settings, database, folderId, log, onReport }: WorkerContext,
  options: Partial<WorkerOptions>,
  work: (worker: Worker) => Promise<void>,
): Promise<void> {
  const spill = join(settings.dataDirectory, 'spill');
  mkdirSync(spill, { recursive: true });
  const instance = await createInstance({
    threads: settings.duckdbThreads,
    memoryLimit: settings.duckdbMemoryLimit,
    spillDirectory: join(spill, `sync-${process.pid}`),
  });
  const worker = createWorker({
    database,
    instance,
    dataDirectory: settings.dataDirectory,
    dataFolderId: folderId,
    concurrency: settings.syncConcurrency,
    maxIdleFiles: maxIdle(settings.duckdbMemoryLimit, memoryOfIdleFile),
    pollIntervalMs: settings.syncPollIntervalMs,
    log,
    onReport,
    ...options,
  });
  try {
    await work(worker);
  } finally {
    await worker.close().finally(() => instance.closeSync());
  }
}
