import type { DuckDBInstance } from '@duckdb/node-api';
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { backoffMs } from '../../src/backoff.ts';
import { encodeId } from '../../src/domain/public-id.ts';
import { isInstanceLost } from '../../src/duckdb/damage.ts';
import { isOutOfMemory } from '../../src/duckdb/memory.ts';
import { OperatorError } from '../../src/operator-error.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { organizationDirectory } from '../../src/purchase-store/published-generation.ts';
import { writeUpToDate } from '../../src/purchase-store/up-to-date.ts';
import { takeWorkerRequests } from '../../src/purchase-store/worker-requests.ts';
import {
  type ChangeLogNews,
  currentSnapshot,
  pruneChangeLog,
  pruneGoneOrganizations,
  type RetainedSnapshot,
  readChangeLog,
  removeForeignEntries,
  tellOfReading,
} from '../capture/change-log.ts';
import { type TakenRequests, takeRequests } from '../commands/requests.ts';
import { describeFailure } from '../failure.ts';
import { removeForgottenFolders, removeOrganizationFolder } from '../files/folders.ts';
import { createIdleFiles } from '../files/idle-files.ts';
import {
  everyOrganization,
  isOfShard,
  listOrganizationsOf,
  type Shard,
  shardName,
} from '../shard.ts';
import { createReporter, type OrganizationReport } from '../status/report.ts';
import { createWorkerFailures } from '../status/worker-failure.ts';
import { type ContinuousVerification, verifyContinuously } from '../verification/continuous.ts';
import type { Repairs } from '../verification/repair.ts';
import { every, pauseUntil } from './pauses.ts';
import { createReplicator } from './replicator.ts';
import { createScheduler, type Scheduler } from './scheduler.ts';

export type WorkerOptions = {
  readonly database: Database;
  readonly instance: DuckDBInstance;
  readonly dataDirectory: string;
  readonly dataFolderId: string;
  /** Organizations brought up to date at once, and as many built at once. */
  readonly concurrency: number;
  /** Files that stay open while nobody works with them. */
  readonly maxIdleFiles: number;
  readonly pollIntervalMs: number;
  readonly log: Logger;
  /** Which organizations are this worker's; all of them by default. */
  readonly shard?: Shard;
  /** Rows that a load reads in one transaction; smaller in tests. */
  readonly loadChunkRows?: number;
  /** Verifies continuously, at low priority; not if undefined. */
  readonly verification?: Pick<ContinuousVerification, 'everyMs' | 'duckdb'> | undefined;
  readonly onReport?: (organizationId: bigint, report: OrganizationReport) => void;
  /** Called after each look at the change log that finds every organization's file up to date. */
  readonly onUpToDate?: () => void;
};

export type Worker = {
  /** One pass: every organization brought up to date. Rejects with all that failed. */
  once(organizations: readonly bigint[]): Promise<void>;
  /** What can be done where an organization's purchases are not what Postgres holds. */
  repairsFor(organizationId: bigint): Repairs;
  /** Follows the change log until the signal is aborted, or DuckDB has given up. */
  run(signal: AbortSignal): Promise<void>;
  /** Gives up what is at work; whatever is not committed is done again at the next start. */
  close(): Promise<void>;
};

const organizationsIntervalMs = 500;
const requestsIntervalMs = 500;
const pruneIntervalMs = 5_000;
const tidyIntervalMs = 60_000;

export function createWorker(options: WorkerOptions): Worker {
  const { database, dataDirectory, dataFolderId, pollIntervalMs, log } = options;
  const { shard = everyOrganization, onReport = () => {} } = options;
  const isMine = (organizationId: bigint) => isOfShard(organizationId, shard);
  const queues = {
    changes: new PQueue({ concurrency: options.concurrency }),
    builds: new PQueue({ concurrency: options.concurrency }),
  };
  const closing = new AbortController();
  /** Aborted where DuckDB does nothing more for this worker. */
  const lost = new AbortController();
  let verifying: Promise<void> | null = null;
  const tasks = new Map<bigint, Scheduler>();
  const idleFiles = createIdleFiles(options.maxIdleFiles);
  /** The snapshots down to which each organization's changes were pruned. */
  const pruned = new Map<bigint, string>();
  const nameOf = (snapshots: readonly RetainedSnapshot[]) =>
    snapshots.map((each) => each.snapshot).join();
  const requestsTaken: TakenRequests = new Map();
  const failures = createWorkerFailures(dataDirectory, shard, log);

  const taskFor = (organizationId: bigint): Scheduler => {
    let task = tasks.get(organizationId);
    if (task === undefined) {
      const taskLog = log.child({ organization: encodeId('organization', organizationId) });
      const directory = organizationDirectory(dataDirectory, organizationId);
      task = createScheduler({
        sync: createReplicator({ ...options, organizationId, idleFiles, log: taskLog }),
        queues,
        reporter: createReporter(
          directory,
          (report) => onReport(organizationId, report),
          (error) => failures.note(`writing STATUS of ${organizationId}`, error),
        ),
        signal: closing.signal,
        log: taskLog,
        onFailure: (error) => {
          if (isInstanceLost(error)) lost.abort(error);
          // What has failed is tried again, and finds room then.
          if (isOutOfMemory(error)) void idleFiles.closeAll();
        },
      });
      tasks.set(organizationId, task);
    }
    return task;
  };

  const refreshOrganizations = async () => {
    const present = new Set((await listOrganizationsOf(database, shard)).map(({ id }) => id));
    for (const id of present) taskFor(id);
    for (const [id, task] of tasks) {
      if (present.has(id) || task.isBusy()) continue;
      tasks.delete(id);
      await task.close();
      await removeOrganizationFolder(dataDirectory, id);
      failures.note(`writing STATUS of ${id}`, null);
      log.info({ organization: encodeId('organization', id) }, 'it is gone, and so are its files');
    }
  };

  const prune = async () => {
    const moved = new Map<bigint, RetainedSnapshot[]>();
    const unmoved: bigint[] = [];
    for (const [id, { sync }] of tasks) {
      const snapshots = sync.retainedSnapshots();
      if (snapshots.length === 0) continue;
      if (nameOf(snapshots) === pruned.get(id)) unmoved.push(id);
      else moved.set(id, snapshots);
    }
    await tellOfReading(database, dataFolderId, unmoved);
    if (moved.size > 0) await pruneChangeLog(database, dataFolderId, moved);
    for (const [id, snapshots] of moved) pruned.set(id, nameOf(snapshots));
    await pruneGoneOrganizations(database);
  };

  /** Pruning may fail while looking succeeds, where a right is missing. */
  const attemptPruning = async () => {
    await prune().then(
      () => failures.note('pruning', null),
      (error) => failures.note('pruning', error),
    );
  };

  const repairsFor = (organizationId: bigint): Repairs => ({
    reread: (ranges) => taskFor(organizationId).reread(ranges),
    rebuild: () => taskFor(organizationId).build('load', 'it was asked for'),
  });

  const answerRequests = async () => {
    for (const { request, answer } of await takeRequests(dataDirectory, shard, requestsTaken)) {
      const { reread, rebuild } = repairsFor(request.organizationId);
      void (request.kind === 'reread' ? reread(request.ranges) : rebuild())
        .then(
          () => answer(null),
          // Where this worker stops, the next one answers.
          async (error) => {
            if (!closing.signal.aborted) await answer(describeFailure(error).message);
          },
        )
        .catch((error) => log.error({ err: error }, 'cannot answer a request'));
    }
  };

  /** Rebuilds what the API could not read, unless another generation has taken its place. */
  const rebuildDamaged = () => {
    let requests: ReadonlyMap<bigint, string>;
    try {
      requests = takeWorkerRequests(dataDirectory, 'damaged', isMine);
    } catch (error) {
      log.debug({ err: error }, 'cannot read reports of damaged files');
      return;
    }
    for (const [id, file] of requests) {
      const task = tasks.get(id);
      if (task === undefined || !task.sync.isDamageToRepair(file)) continue;
      const organization = encodeId('organization', id);
      log.error({ organization, file }, 'a published file is damaged; look at the disk');
      void task.build('load', 'the published file is damaged').catch(() => {});
    }
  };

  const tidyUp = async () => {
    const isAtWork = (id: bigint) => tasks.has(id);
    await removeForgottenFolders(database, dataDirectory, shard, isAtWork).catch((error) =>
      log.debug({ err: error }, 'cannot tidy up now'),
    );
  };

  /** Says which generations show whatever this look, whose news are noticed, could see. */
  const tellUpToDate = ({ asOf }: ChangeLogNews) => {
    const generations = new Map<bigint, string>();
    for (const [id, task] of tasks) {
      const generation = task.upToDateGeneration();
      if (generation !== null) generations.set(id, generation.file);
    }
    try {
      writeUpToDate(dataDirectory, shardName(shard), { asOf, generations });
      failures.note('writing up-to-date', null);
    } catch (error) {
      // A full disk must not stop the work.
      failures.note('writing up-to-date', error);
    }
    if (generations.size === tasks.size) options.onUpToDate?.();
  };

  /** Whoever empties the change log removes these as well. */
  const publishedTokens = (): string[] =>
    [...tasks.values()].flatMap((task) => task.upToDateGeneration()?.token ?? []);

  /** One look; rejects where Postgres does not answer. Gives the news for the next one to go on from. */
  const pollChanges = async (last: ChangeLogNews | null, due: Due): Promise<ChangeLogNews> => {
    let snapshot = last?.snapshot;
    // Whatever came before the first look is found by each organization's next run.
    if (snapshot === undefined) {
      await removeForeignEntries(database);
      snapshot = await currentSnapshot(database);
    }
    const news = await readChangeLog(database, snapshot, publishedTokens());
    // Something may have happened that is not in the log: every organization looks for itself.
    if (last !== null && news.source !== last.source) return pollChanges(null, due);
    // A run that began before this look may have seen less than the look compares with later.
    if (last === null) for (const task of tasks.values()) task.noticeChanges();
    if (due.organizations()) await refreshOrganizations();
    for (const [id, task] of tasks) {
      const token = task.sync.publishedGeneration()?.token ?? '';
      if (news.organizations.includes(id) || news.lostTokens.has(token)) task.noticeChanges();
    }
    tellUpToDate(news);
    if (due.requests()) {
      await answerRequests();
      rebuildDamaged();
    }
    for (const task of tasks.values()) task.startWhatIsDue();
    if (due.pruning()) await attemptPruning();
    if (due.tidying()) await tidyUp();
    return news;
  };

  /** Passes on for whom somebody waits; false where nobody does. */
  const takeRefreshRequests = (): boolean => {
    try {
      const requests = takeWorkerRequests(dataDirectory, 'refresh', isMine);
      for (const id of requests.keys()) tasks.get(id)?.requestRefresh();
      return requests.size > 0;
    } catch (error) {
      // If requests cannot be removed, everything is done in its turn.
      log.debug({ err: error }, 'cannot read refresh requests');
      return false;
    }
  };

  const startVerifying = (signal: AbortSignal): void => {
    if (options.verification === undefined) return;
    verifying = verifyContinuously({
      ...options.verification,
      database,
      dataDirectory,
      organizations: () => [...tasks.keys()],
      repairsFor,
      log,
      signal: AbortSignal.any([signal, closing.signal]),
    });
  };

  let closed: Promise<void> | undefined;
  const closeOnce = async () => {
    closing.abort(new Error('the worker is stopping'));
    await Promise.all([...tasks.values()].map((task) => task.close()));
    // A rebuild that it waits for ends no sooner.
    await verifying;
  };

  return {
    async once(organizations) {
      await removeForeignEntries(database);
      const results = await Promise.allSettled(
        organizations.map((id) =>
          taskFor(id)
            .bringUpToDate()
            .catch(async (error) => {
              if (!isOutOfMemory(error)) throw error;
              await idleFiles.closeAll();
              await taskFor(id).bringUpToDate();
            }),
        ),
      );
      const failures = results.flatMap((result, index) => {
        if (result.status === 'fulfilled') return [];
        const { message } = describeFailure(result.reason);
        return [`${encodeId('organization', organizations[index] as bigint)}: ${message}`];
      });
      if (failures.length > 0) throw new OperatorError(failures.join('\n'));
      await prune();
    },

    repairsFor,

    async run(stopped) {
      const signal = AbortSignal.any([stopped, lost.signal]);
      const due: Due = {
        organizations: every(organizationsIntervalMs),
        requests: every(requestsIntervalMs),
        pruning: every(pruneIntervalMs),
        tidying: every(tidyIntervalMs),
      };
      let news: ChangeLogNews | null = null;
      let outages = 0;
      log.info(
        { ...(shard.of > 1 ? { shard: `${shard.number}/${shard.of}` } : {}) },
        'following changes',
      );
      startVerifying(signal);
      while (!signal.aborted) {
        try {
          news = await pollChanges(news, due);
          outages = 0;
          failures.note('looking', null);
        } catch (error) {
          outages += 1;
          // What answers next may be another server, or this one set back.
          news = null;
          failures.note('looking', error);
        }
        const isReachable = outages === 0;
        const pause = isReachable ? pollIntervalMs : backoffMs(outages, 5_000);
        await pauseUntil(pause, () => takeRefreshRequests() && isReachable, signal);
      }
      if (lost.signal.aborted) log.error('DuckDB has given up, and must be started anew');
    },

    close() {
      closed ??= closeOnce();
      return closed;
    },
  };
}

type Due = Readonly<Record<'organizations' | 'requests' | 'pruning' | 'tidying', () => boolean>>;
