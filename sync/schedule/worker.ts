import type { Logger } from 'pino';
import { backoffMs } from '../../src/backoff.ts';
import { encodeId } from '../../src/domain/public-id.ts';
import { isInstanceLost } from '../../src/duckdb/damage.ts';
import { isOutOfMemory } from '../../src/duckdb/memory.ts';
import { OperatorError } from '../../src/operator-error.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { writeUpToDate } from '../../src/purchase-store/up-to-date.ts';
import { type PollResult, removeForeignEntries } from '../capture/change-log.ts';
import type { Generation } from '../capture/watermark.ts';
import { describeFailure } from '../failure.ts';
import { noObserver, type WorkerObserver, type WorkerState } from '../metrics/observer.ts';
import { everyOrganization, type Shard, shardName } from '../shard.ts';
import type { OrganizationReport } from '../status/report.ts';
import { createWorkerFailures } from '../status/worker-failure.ts';
import { type ContinuousVerification, verifyContinuously } from '../verification/continuous.ts';
import type { Repairs } from '../verification/repair.ts';
import { createChangeLogPoll } from './change-log-poll.ts';
import { createOrganizationSchedulers } from './organization-schedulers.ts';
import { createPruning } from './pruning.ts';
import { createRequestHandlers } from './request-handlers.ts';
import type { BuildLimits, Store } from './store.ts';
import { every, pauseUntil } from './timers.ts';

export type WorkerOptions = BuildLimits & {
  readonly database: Database;
  readonly store: Store;
  readonly dataDirectory: string;
  readonly dataFolderId: string;
  /** Organizations whose changes are applied at once, and as many that are built at once. */
  readonly concurrency: number;
  readonly pollIntervalMs: number;
  readonly log: Logger;
  /** All organizations by default. */
  readonly shard?: Shard;
  /** Verifies continuously, at low priority; not if undefined. */
  readonly verification?: Pick<ContinuousVerification, 'everyMs' | 'open'> | undefined;
  readonly observer?: WorkerObserver;
  readonly onReport?: (organizationId: bigint, report: OrganizationReport) => void;
  /** Called after each poll that finds every organization's file up to date. */
  readonly onUpToDate?: () => void;
};

export type Worker = {
  /** Brings the organizations up to date once. Rejects with all failures. */
  once(organizations: readonly bigint[]): Promise<void>;
  repairsFor(organizationId: bigint): Repairs;
  /** Follows the change log until the signal is aborted, or the DuckDB instance fails. */
  run(signal: AbortSignal): Promise<void>;
  state(): WorkerState;
  /** Ends all work. The next start repeats what is not committed. */
  close(): Promise<void>;
};

const organizationsIntervalMs = 500;
const requestsIntervalMs = 500;
const pruneIntervalMs = 5_000;
const cleanUpIntervalMs = 60_000;

export function createWorker(options: WorkerOptions): Worker {
  const { database, store, dataDirectory, dataFolderId, log } = options;
  const { shard = everyOrganization, onReport = () => {}, observer = noObserver } = options;
  const closing = new AbortController();
  /** Aborted when the DuckDB instance is unusable. */
  const lost = new AbortController();
  const failures = createWorkerFailures(dataDirectory, shard, log, observer.failed);
  const schedulers = createOrganizationSchedulers({
    ...options,
    shard,
    observer,
    onReport,
    failures,
    signal: closing.signal,
    onFailure: (error) => {
      if (isInstanceLost(error)) lost.abort(error);
      // The retry has more memory then.
      if (isOutOfMemory(error)) void store.freeMemory();
    },
  });
  const requests = createRequestHandlers({ ...options, shard, schedulers, signal: closing.signal });
  const changeLogPoll = createChangeLogPoll(database, schedulers);
  const prune = createPruning(database, dataFolderId, schedulers.all);
  /** The last instant up to which a poll found each organization complete. */
  const confirmed = new Map<bigint, bigint>();
  let lastPoll: WorkerState['lastPoll'] = null;
  let verifying: Promise<void> | null = null;
  let closed: Promise<void> | null = null;

  /** Pruning may fail while polls succeed: it needs rights to write. */
  const attemptPruning = async () => {
    await prune().then(
      () => failures.note('pruning', null),
      (error) => failures.note('pruning', error),
    );
  };

  const cleanUp = async () => {
    const isPresent = (id: bigint) => schedulers.all.has(id);
    for (const id of confirmed.keys()) if (!isPresent(id)) confirmed.delete(id);
    await store
      .cleanUp(shard, isPresent)
      .catch((error) => log.debug({ err: error }, 'cannot remove unused purchases now'));
  };

  /** Writes which generations show all changes that this poll could see. */
  const reportUpToDate = ({ asOf }: PollResult) => {
    const generations = new Map<bigint, Generation>();
    for (const [id, scheduler] of schedulers.all) {
      const generation = scheduler.upToDateGeneration();
      if (generation === null) continue;
      generations.set(id, generation);
      confirmed.set(id, asOf);
    }
    try {
      const names = new Map([...generations].map(([id, { name }]) => [id, name]));
      writeUpToDate(dataDirectory, shardName(shard), { asOf, generations: names });
      failures.note('writing up-to-date', null);
    } catch (error) {
      // A full disk must not stop the worker.
      failures.note('writing up-to-date', error);
    }
    store.confirm(asOf, generations);
    if (generations.size === schedulers.all.size) options.onUpToDate?.();
  };

  /** Rejects if Postgres does not respond. */
  const work = async (due: Due): Promise<void> => {
    const startedAt = performance.now();
    const result = await changeLogPoll.poll(async () => {
      if (due.organizations()) await schedulers.refresh();
    });
    lastPoll = { asOf: result.asOf, at: performance.now() };
    observer.polled(lastPoll.at - startedAt);
    reportUpToDate(result);
    if (due.requests()) {
      await requests.takeCommandRequests();
      requests.rebuildDamagedFiles();
    }
    for (const scheduler of schedulers.all.values()) scheduler.startDueWork();
    if (due.pruning()) await attemptPruning();
    if (due.cleanUp()) await cleanUp();
  };

  const startVerifying = (signal: AbortSignal): void => {
    if (options.verification === undefined) return;
    verifying = verifyContinuously({
      ...options.verification,
      database,
      dataDirectory,
      organizations: () => [...schedulers.all.keys()],
      repairsFor: schedulers.repairsFor,
      log,
      observer,
      signal: AbortSignal.any([signal, closing.signal]),
    });
  };

  const closeOnce = async () => {
    closing.abort(new Error('the worker is stopping'));
    await schedulers.close();
    // It may wait for a rebuild, which has ended now.
    await verifying;
  };

  return {
    async once(organizations) {
      await removeForeignEntries(database);
      const bringUpToDate = async (id: bigint) => {
        const scheduler = schedulers.of(id);
        await scheduler.bringUpToDate().catch(async (error) => {
          if (!isOutOfMemory(error)) throw error;
          await store.freeMemory();
          await scheduler.bringUpToDate();
        });
      };
      const results = await Promise.allSettled(organizations.map(bringUpToDate));
      const messages = results.flatMap((result, index) => {
        if (result.status === 'fulfilled') return [];
        const { message } = describeFailure(result.reason);
        return [`${encodeId('organization', organizations[index] as bigint)}: ${message}`];
      });
      if (messages.length > 0) throw new OperatorError(messages.join('\n'));
      await prune();
    },

    repairsFor: schedulers.repairsFor,

    state: () => ({
      lastPoll,
      organizations: [...schedulers.all].map(([id, scheduler]) => {
        const { asOf, delta } = scheduler.replicator.publishedState();
        const shown = confirmed.get(id) ?? null;
        return {
          state: scheduler.state(),
          isPending: scheduler.upToDateGeneration() === null,
          asOf: asOf !== null && shown !== null && shown > asOf ? shown : asOf,
          delta,
        };
      }),
    }),

    async run(stopped) {
      const signal = AbortSignal.any([stopped, lost.signal]);
      const due: Due = {
        organizations: every(organizationsIntervalMs),
        requests: every(requestsIntervalMs),
        pruning: every(pruneIntervalMs),
        cleanUp: every(cleanUpIntervalMs),
      };
      let outages = 0;
      log.info(
        { ...(shard.of > 1 ? { shard: `${shard.number}/${shard.of}` } : {}) },
        'following changes',
      );
      startVerifying(signal);
      while (!signal.aborted) {
        try {
          await work(due);
          outages = 0;
          failures.note('polling', null);
        } catch (error) {
          outages += 1;
          changeLogPoll.reset();
          failures.note('polling', error);
        }
        const isReachable = outages === 0;
        const pauseMs = isReachable ? options.pollIntervalMs : backoffMs(outages, 5_000);
        await pauseUntil(pauseMs, () => requests.takeRefreshRequests() && isReachable, signal);
      }
      if (lost.signal.aborted) log.error('the DuckDB instance failed; the worker starts a new one');
    },

    close() {
      closed ??= closeOnce();
      return closed;
    },
  };
}

type Due = Readonly<Record<'organizations' | 'requests' | 'pruning' | 'cleanUp', () => boolean>>;
