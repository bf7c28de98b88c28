import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { loggedWait } from '../../src/commands/database.ts';
import {
  createPool,
  type Database,
  destroyConnections,
} from '../../src/postgres/connection/pool.ts';
import { requireDatabase } from '../../src/postgres/connection/require-database.ts';
import { readMappingStatus } from '../../src/postgres/mapping/mapping-status.ts';
import { backoffMs } from '../../src/process/backoff.ts';
import { createLog } from '../../src/process/log.ts';
import { warnOfLittleMemory } from '../../src/process/memory-limit.ts';
import { OperatorError } from '../../src/process/operator-error.ts';
import { requireSameUser, restrictFolders } from '../../src/process/private-files.ts';
import { everyOrganization, type Shard } from '../../src/purchase-store/ticks/shard.ts';
import { workerMemory } from '../../src/settings/memory-needs.ts';
import { requireDatabaseUrl, type Settings } from '../../src/settings/settings.ts';
import { CaptureError, describeFailure } from '../describe-failure.ts';
import { dataFolderId, readDataFolderId } from '../files/data-folder.ts';
import { OwnershipError } from '../files/ownership.ts';
import {
  tryWorkerLock,
  type WorkerLock,
  waitForCommandLock,
  workerSettings,
} from '../lock/worker-lock.ts';
import { createWorker, type Worker, type WorkerOptions } from '../worker/worker.ts';
import { openWorkerStore, type WorkerStore } from './stores.ts';

export type WorkerContext = {
  readonly settings: Settings;
  readonly databaseUrl: string;
  readonly database: Database;
  readonly folderId: string;
  readonly log: Logger;
};

/** Commands that write need the primary, which keeps the lock. Others use any server. */
type WorkerContextNeeds = {
  readonly server: 'primary' | 'any';
  readonly stopped?: AbortSignal;
  /** The command does not wait for Postgres, and each of its statements fails after this time. */
  readonly timeoutMs?: number;
};

export async function withWorkerContext(
  settings: Settings,
  { server, stopped, timeoutMs }: WorkerContextNeeds,
  work: (context: WorkerContext) => Promise<void>,
): Promise<void> {
  const { dataDirectory } = settings;
  const databaseUrl = requireDatabaseUrl(settings);
  if (server === 'primary') requireSameUser(dataDirectory);
  const log = createLog('sync', settings.logLevel);
  const isUsable = await requireDatabase(
    databaseUrl,
    { isPrimary: server === 'primary' },
    timeoutMs === undefined
      ? loggedWait(settings, log, stopped)
      : { forMs: 0, timeoutMs, report: () => {} },
  );
  if (!isUsable) return;
  // One connection for each organization that is followed or built. The other four serve the
  // change log, verification, tokens, and all other statements.
  const database = createPool(databaseUrl, {
    max: 2 * settings.syncConcurrency + 4,
    applicationName: 'crm-data-service sync',
    settings: workerSettings,
    ...(timeoutMs !== undefined && { statementTimeoutMs: timeoutMs }),
  });
  try {
    const folderId = await (server === 'any' ? readDataFolderId : dataFolderId)(dataDirectory);
    if (server === 'primary') restrictFolders(dataDirectory);
    await work({ settings, databaseUrl, database, folderId, log });
  } finally {
    await database.end();
  }
}

// Postgres may hold the lock of a killed worker for a moment.
const lockTimeoutMs = 5_000;

/** Runs `work` with the lock of the data folder, or `otherwise` if another process has the lock. */
export async function withOnlyWorker(
  context: WorkerContext,
  work: (worker: Worker) => Promise<void>,
  otherwise?: () => Promise<void>,
): Promise<void> {
  const { databaseUrl, folderId } = context;
  const refuse = async () => {
    const { dataDirectory } = context.settings;
    throw new OperatorError(
      `Another sync worker writes to ${dataDirectory}, and publishes all changes. ` +
        'Only one may do so: stop it to run this command.',
    );
  };
  const timeoutMs = otherwise === undefined ? lockTimeoutMs : 0;
  const lock = await waitForCommandLock(databaseUrl, folderId, timeoutMs);
  if (lock === null) {
    await (otherwise ?? refuse)();
    return;
  }
  try {
    await withWorker(context, {}, openWorkerStore, async (worker) => {
      breakConnectionsWith(lock, context);
      lock.lost.addEventListener('abort', () => void worker.close());
      await work(worker).catch((error) => {
        if (!lock.lost.aborted) throw asOperatorError(error);
        // The loss of the lock caused the failure.
        throw new OperatorError(
          "The connection to Postgres that holds the worker's lock was lost. Run the command again.",
        );
      });
    });
  } finally {
    await lock.release();
  }
}

function asOperatorError(error: unknown): unknown {
  if (!(error instanceof CaptureError)) return error;
  return new OperatorError(`${error.message} ${error.advice}`, { cause: error });
}

const standbyIntervalMs = 500;
const restartPauseMs = 1_000;

/**
 * Follows changes until `stopped` is aborted. While another worker has the lock, this worker is
 * a standby. If the lock is lost, all work ends until the worker has the lock again.
 */
export async function followChanges(
  context: WorkerContext,
  options: Partial<WorkerOptions>,
  stopped: AbortSignal,
  open: Open = openWorkerStore,
): Promise<void> {
  const { log } = context;
  warnOfLittleMemory(log, workerMemory(context.settings));
  while (!stopped.aborted) {
    const lock = await waitAsStandby(context, options.shard ?? everyOrganization, stopped);
    if (lock === null) return;
    breakConnectionsWith(lock, context);
    const folder = watchFolder(context);
    try {
      const ending = AbortSignal.any([stopped, lock.lost, folder.lost]);
      const openWaiting = openWhenFree(open, ending);
      await withWorker(context, options, openWaiting, (worker) => worker.run(ending));
    } catch (error) {
      if (!(error instanceof OwnershipError)) throw error;
    } finally {
      folder.stop();
      await lock.release();
    }
    folder.lost.throwIfAborted();
    if (stopped.aborted) return;
    if (lock.lost.aborted) {
      log.warn('the connection that holds the lock was lost; locking again');
    } else {
      // A bound on restarts if DuckDB fails again and again.
      await sleep(restartPauseMs, undefined, { signal: stopped }).catch(() => {});
    }
  }
}

const folderIntervalMs = 1_000;

/** The lock is on the folder's id: after its deletion, another worker could lock the new folder. */
function watchFolder({ settings: { dataDirectory }, folderId }: WorkerContext) {
  const lost = new AbortController();
  const timer = setInterval(async () => {
    const id = await readDataFolderId(dataDirectory).catch(() => folderId);
    if (id === folderId) return;
    const message = `DATA_DIR ${dataDirectory} was deleted or replaced while the worker ran.`;
    lost.abort(new OperatorError(`${message} Its next start loads all organizations.`));
  }, folderIntervalMs);
  return { lost: lost.signal, stop: () => clearInterval(timer) };
}

/** A failure that ends the lock's connection may leave other connections without a response. */
function breakConnectionsWith({ lost }: WorkerLock, { database }: WorkerContext): void {
  lost.addEventListener('abort', () => destroyConnections(database));
}

async function waitAsStandby(
  { databaseUrl, folderId, log }: WorkerContext,
  shard: Shard,
  stopped: AbortSignal,
): Promise<WorkerLock | null> {
  let logged: string | null = null;
  const logOnce = (message: string, advice?: string) => {
    if (logged !== message) log.info({ advice }, message);
    logged = message;
  };
  for (let failures = 0; !stopped.aborted; ) {
    let pauseMs = standbyIntervalMs * (0.5 + Math.random());
    try {
      const lock = await tryWorkerLock(databaseUrl, folderId, shard);
      if (lock !== null) return lock;
      failures = 0;
      logOnce('another worker has the lock; this worker is a standby');
    } catch (error) {
      failures += 1;
      pauseMs = backoffMs(failures, 5_000);
      const { message, advice } = describeFailure(error);
      logOnce(message, advice);
    }
    await sleep(pauseMs, undefined, { signal: stopped }).catch(() => {});
  }
  return null;
}

type Open = (context: Parameters<typeof openWorkerStore>[0]) => Promise<WorkerStore>;

const ownershipIntervalMs = 500;

/**
 * Opens the store once no other process has it open: a suspended worker does not notice the loss of
 * its lock. Rejects with OwnershipError after `ending` is aborted.
 */
const openWhenFree =
  (open: Open, ending: AbortSignal): Open =>
  async (context) => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await open(context);
      } catch (error) {
        if (!(error instanceof OwnershipError) || ending.aborted) throw error;
        if (attempt === 1) context.log.warn(error.message);
      }
      await sleep(ownershipIntervalMs, undefined, { signal: ending }).catch(() => {});
    }
  };

async function withWorker(
  context: WorkerContext,
  options: Partial<WorkerOptions>,
  open: Open,
  work: (worker: Worker) => Promise<void>,
): Promise<void> {
  const { settings, database, folderId, log } = context;
  const { shard = everyOrganization } = options;
  const { store, builder, instance, close } = await open({ ...context, shard });
  const worker = createWorker({
    database,
    store,
    builder,
    dataDirectory: settings.dataDirectory,
    dataFolderId: folderId,
    concurrency: settings.syncConcurrency,
    pollIntervalMs: settings.syncPollIntervalMs,
    log,
    ...options,
  });
  try {
    options.metrics?.followed({
      state: worker.state,
      instance,
      readMapping: () => readMappingStatus(database),
    });
    await work(worker);
  } finally {
    options.metrics?.followed(null);
    await worker.close().finally(close);
  }
}
