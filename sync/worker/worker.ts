import { setTimeout as sleep } from 'node:timers/promises';
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { backoffMs } from '../../src/backoff.ts';
import { encodeId } from '../../src/domain/public-id.ts';
import { invalidatesInstance } from '../../src/duckdb/damage.ts';
import { OperatorError } from '../../src/operator-error.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { sendDamageReport } from '../../src/purchase-store/damage-reports.ts';
import { everyOrganization, isOfShard, type Shard } from '../../src/purchase-store/shard.ts';
import type { Builder } from '../builds/builder.ts';
import {
  pollChangeLog,
  pruneChangeLog,
  removeForeignEntries,
  retainChangeLog,
} from '../capture/change-log.ts';
import { findInvalidPurchase } from '../capture/invalid-purchase.ts';
import { describeFailure, isDataError } from '../failure.ts';
import { noObserver, type ObservedWorker, type WorkerObserver } from '../metrics/observer.ts';
import type { OrganizationReport, OrganizationState } from '../status/worker-state.ts';
import { joinBehind } from '../tick/join.ts';
import {
  exceptionsOf,
  type Organization,
  type Organizations,
  type Phase,
} from '../tick/organizations.ts';
import type { Publication } from '../tick/publication.ts';
import { reread } from '../tick/reread.ts';
import { refreshOrganizations, startPublication } from '../tick/start.ts';
import type { Store } from '../tick/store.ts';
import {
  defaultMaxTickChanges,
  noChanges,
  runTick,
  type TickContext,
  type TickResult,
} from '../tick/tick.ts';
import type { Repairs } from '../verification/repair.ts';
import { createBuildScheduler } from './build-scheduler.ts';
import { type ContinuousVerification, verifyContinuously } from './continuous-verification.ts';
import { createReports } from './reports.ts';
import { createRequestHandlers } from './request-handlers.ts';
import { createRetries, type Retries } from './retries.ts';
import { every } from './timers.ts';

export type WorkerOptions = {
  readonly database: Database;
  readonly store: Store;
  readonly builder: Builder;
  readonly dataDirectory: string;
  readonly dataFolderId: string;
  /** Organizations that are built at once. */
  readonly concurrency: number;
  readonly pollIntervalMs: number;
  /** Changes of one tick; smaller in tests. */
  readonly maxTickChanges?: number;
  readonly log: Logger;
  /** All organizations by default. */
  readonly shard?: Shard;
  /** Verifies continuously, at low priority; not if undefined. */
  readonly verification?: Pick<ContinuousVerification, 'everyMs' | 'open'> | undefined;
  readonly observer?: WorkerObserver;
  readonly onReport?: (organizationId: bigint, report: OrganizationReport) => void;
  /** Called after each publication that includes every organization. */
  readonly onUpToDate?: () => void;
};

export type Worker = {
  /** Publishes once. Loads and compacts these organizations if that is due. Rejects with all failures. */
  once(organizations: readonly bigint[]): Promise<void>;
  repairsFor(organizationId: bigint): Repairs;
  /** Follows the change log until the signal is aborted, or the DuckDB instance fails. */
  run(signal: AbortSignal): Promise<void>;
  state(): ObservedWorker;
  /** Ends all work. The next start repeats what is not published. */
  close(): Promise<void>;
};

const organizationsIntervalMs = 500;
const requestsIntervalMs = 500;
const syncIntervalMs = 5_000;
const cleanUpIntervalMs = 60_000;
/** Between two looks at the logs of all organizations, changed or not. */
const compactionIntervalMs = 60_000;
/** An organization that does not follow for longer is loaded when it can be. */
const maxRetentionMicroseconds = 3_600_000_000n;

export function createWorker(options: WorkerOptions): Worker {
  const { database, store, dataDirectory, log } = options;
  const { shard = everyOrganization, onReport = () => {}, observer = noObserver } = options;
  const { maxTickChanges = defaultMaxTickChanges } = options;
  const reader = `${options.dataFolderId} ${shard.number}/${shard.of}`;
  const closing = new AbortController();
  /** Aborted when the DuckDB instance is unusable. */
  const lost = new AbortController();
  const onError = (error: unknown) => {
    if (invalidatesInstance(error)) lost.abort(error);
  };
  const organizations: Organizations = new Map();
  const joinRetries = new Map<bigint, Retries>();
  const reports = createReports({
    dataDirectory,
    shard,
    log,
    onReport,
    onFailure: observer.failed,
  });
  // One publication at a time: a tick, a join, or the end of a build.
  const publications = new PQueue({ concurrency: 1 });
  const exclusively = <Result>(work: () => Promise<Result>): Promise<Result> =>
    publications.add(async () => {
      closing.signal.throwIfAborted();
      return work();
    });
  const maintenance = new PQueue({ concurrency: 1 });
  let publication: Publication | null = null;
  const organizationsDue = every(organizationsIntervalMs);
  let organizationsDigest = '';
  let lastPoll: ObservedWorker['lastPoll'] = null;
  let verifying: Promise<void> | null = null;
  let closed: Promise<void> | null = null;

  const retriesOf = (id: bigint): Retries => {
    const organizationLog = log.child({ organization: encodeId('organization', id) });
    const known = joinRetries.get(id) ?? createRetries(organizationLog);
    joinRetries.set(id, known);
    return known;
  };

  const reportFailure = ({ id }: Organization, error: unknown): void => {
    onError(error);
    observer.failed('changes');
    const failure = retriesOf(id).failed(error);
    reports.report(id, { failure });
    if (isDataError(error)) void searches.add(() => nameInvalidPurchase(id, failure));
  };

  // The search reads all purchases of the organization, and others are published meanwhile.
  const searches = new PQueue({ concurrency: 1 });
  const nameInvalidPurchase = async (id: bigint, failure: ReportedFailure): Promise<void> => {
    const found = await findInvalidPurchase(database, id).catch(() => null);
    if (found === null || reports.of(id)?.failure !== failure) return;
    const { message, advice } = describeFailure(found);
    log.error({ organization: encodeId('organization', id), advice }, message);
    reports.report(id, { failure: { ...failure, message, advice } });
  };

  /** The request handlers rebuild the organization, also those of the next worker. */
  const reportDamage = (id: bigint): void => {
    try {
      sendDamageReport(dataDirectory, id, 'CURRENT');
    } catch (error) {
      log.debug({ err: error }, 'cannot report damaged files');
    }
  };

  const context = (): TickContext => {
    if (publication === null) throw new Error('the worker has not started');
    const onFailure = reportFailure;
    return { database, store, organizations, publication, maxTickChanges, onFailure };
  };

  const builds = createBuildScheduler({
    ...options,
    context,
    organizations,
    exclusively,
    reports,
    observer,
    signal: closing.signal,
    onError,
    onDamage: reportDamage,
  });
  const requests = createRequestHandlers({
    dataDirectory,
    isMine: (id) => isOfShard(id, shard),
    shard,
    store,
    builds,
    repairsFor: (id) => repairsFor(id),
    signal: closing.signal,
    log,
  });

  const repairsFor = (id: bigint): Repairs => ({
    async rebuild() {
      await start();
      await builds.rebuild(id, 'a rebuild was requested');
    },
    async reread(ids) {
      log.warn({ purchases: ids.length }, 'reading purchases again that differ from Postgres');
      await start();
      if (await exclusively(() => reread(context(), id, ids))) return;
      await builds.rebuild(id, 'reading the purchases again does not repair the file');
    },
  });

  const start = async (): Promise<void> => {
    if (publication !== null) return;
    await removeForeignEntries(database);
    // Before the first load: the workers of other data folders prune what no reader retains.
    await retainChangeLog(database, reader);
    organizations.clear();
    publication = await startPublication({ database, store, shard }, organizations, (id, error) =>
      log.error({ organization: encodeId('organization', id), err: error }, 'cannot be continued'),
    );
  };

  /** False if a deleted organization is still building. */
  const refresh = async (): Promise<boolean> => {
    let isComplete = true;
    for (const { id } of await refreshOrganizations(database, shard, organizations)) {
      if (builds.isBuilding(id)) {
        isComplete = false;
        continue;
      }
      organizations.delete(id);
      joinRetries.delete(id);
      reports.clear(id);
      await store.remove(id);
      log.info({ organization: encodeId('organization', id) }, 'deleted, with its purchases');
    }
    return isComplete;
  };

  /** One poll of the change log, and a tick if it has changes. */
  const pollAndPublish = (withOrganizations = organizationsDue()): Promise<TickResult> =>
    exclusively(async () => {
      const current = context().publication;
      const startedAt = performance.now();
      const poll = await pollChangeLog(database, current.watermark, shard, withOrganizations);
      if (poll.organizations !== null && poll.organizations !== organizationsDigest) {
        const isComplete = await refresh();
        organizationsDigest = isComplete ? poll.organizations : '';
      }
      lastPoll = { asOf: poll.asOf, at: performance.now() };
      observer.polled(lastPoll.at - startedAt);
      if (!poll.isTickDue) {
        await current.publish(current.watermark, poll.asOf);
        return noChanges;
      }
      const tickAt = performance.now();
      const result = await runTick(context());
      observer.published(result.changes, result.bytes, performance.now() - tickAt);
      return result;
    });

  /** Organizations that are behind and show the same snapshot join together. */
  const joinDue = async (): Promise<void> => {
    const groups = new Map<string, Organization[]>();
    for (const organization of exceptionsOf(organizations)) {
      const { id, phase, shown } = organization;
      if (phase !== 'behind' || shown === null || builds.isBuilding(id)) continue;
      if (!retriesOf(id).isDue()) continue;
      groups.set(shown.snapshot, [...(groups.get(shown.snapshot) ?? []), organization]);
    }
    for (const group of groups.values()) await join(group);
  };

  const join = async (group: readonly Organization[]): Promise<void> => {
    const since = group[0]?.shown;
    if (since == null) return;
    try {
      await exclusively(() => joinBehind(context(), group, since));
      for (const { id, phase } of group) {
        if (phase !== 'following') continue;
        const retries = joinRetries.get(id);
        // A failure of a build is no failure of the join.
        if (retries?.isFailing() === true) reports.clear(id);
        retries?.succeeded();
        joinRetries.delete(id);
      }
    } catch (error) {
      if (closing.signal.aborted) return;
      // One organization's rows must not keep others from joining.
      if (!isDataError(error)) throw error;
      if (group.length > 1) for (const organization of group) await join([organization]);
      else reportFailure(group[0] as Organization, error);
    }
  };

  const syncAndPrune = async (): Promise<void> => {
    const { published } = context().publication;
    await store.sync();
    await exclusively(async () => {
      const { publication: current } = context();
      current.noteSynced(published);
      await current.publish(current.watermark, current.asOf);
    });
    await store.syncTick(shard);
    const { synced, asOf } = context().publication;
    const shown = exceptionsOf(organizations).flatMap((each) =>
      each.shown !== null && each.shown.asOf > asOf - maxRetentionMicroseconds
        ? [each.shown.snapshot]
        : [],
    );
    const retained = builds.retained();
    // The next call prunes.
    if (retained === null) return;
    await pruneChangeLog(database, reader, [synced.snapshot, ...shown, ...retained]);
  };

  /** Rejects if Postgres does not respond, or a tick cannot be published. */
  const work = async (due: Due): Promise<void> => {
    await start();
    const { changed } = await pollAndPublish();
    await joinDue();
    // Without an instance, a rebuild would fail. The next worker takes the requests: before compactions,
    // because merging damaged files may make the next instance fail, too.
    if (due.requests() && !lost.signal.aborted) await requests.take();
    // An earlier worker, or a compaction that failed, may leave long logs of unchanged organizations.
    const compacted = due.compaction() ? organizations.keys() : changed;
    for (const id of compacted) builds.compactIfDue(id);
    await builds.startDue();
    if (exceptionsOf(organizations).length === 0) options.onUpToDate?.();
    // Beside the polls: the disk, and deleting millions of entries, may take seconds.
    if (due.sync() && maintenance.pending + maintenance.size === 0) {
      void maintenance.add(async () => {
        await syncAndPrune().then(
          () => reports.note('pruning', null),
          (error) => {
            if (!closing.signal.aborted) reports.note('pruning', error);
          },
        );
      });
    }
    if (due.cleanUp()) {
      void maintenance.add(() =>
        store
          .cleanUp(shard, (id) => organizations.has(id))
          .catch((error) => log.debug({ err: error }, 'cannot remove unused purchases now')),
      );
    }
  };

  const startVerifying = (signal: AbortSignal): void => {
    if (options.verification === undefined) return;
    verifying = verifyContinuously({
      ...options.verification,
      database,
      dataDirectory,
      organizations: () => [...organizations.keys()],
      repairsFor,
      log,
      observer,
      signal: AbortSignal.any([signal, closing.signal]),
    });
  };

  const closeOnce = async () => {
    closing.abort(new Error('the worker is stopping'));
    await builds.settled();
    await publications.onIdle();
    await maintenance.onIdle();
    await searches.onIdle();
    await verifying;
    reports.close();
    await store.close();
  };

  return {
    async once(wanted) {
      await start();
      // An earlier call may have failed.
      for (const each of joinRetries.values()) each.endPause();
      builds.endPauses();
      await pollAndPublish(true);
      await joinDue();
      // Each of them settles, or fails and pauses.
      const isWaiting = ({ id, phase }: Organization) =>
        phase !== 'following' && wanted.includes(id);
      for (let round = 0; round < 3; round += 1) {
        await builds.startDue(isWaiting);
        await builds.settled();
        await joinDue();
      }
      await pollAndPublish();
      for (const id of wanted) builds.compactIfDue(id);
      await builds.settled();
      await searches.onIdle();
      const messages = [...organizations.values()].filter(isWaiting).map(({ id }) => {
        const failure = reports.of(id)?.failure?.message ?? 'it was not published';
        return `${encodeId('organization', id)}: ${failure}`;
      });
      if (messages.length > 0) throw new OperatorError(messages.join('\n'));
      await syncAndPrune();
    },

    repairsFor,

    state: () => ({
      lastPoll,
      organizations: [...organizations.values()].map(({ id, phase, shown }) => ({
        state: reports.of(id)?.state ?? states[phase],
        isPending: phase !== 'following',
        asOf: phase === 'following' ? (publication?.asOf ?? null) : (shown?.asOf ?? null),
        size: store.sizeOf(id),
      })),
    }),

    async run(stopped) {
      const signal = AbortSignal.any([stopped, lost.signal, closing.signal]);
      const due: Due = {
        requests: every(requestsIntervalMs),
        sync: every(syncIntervalMs),
        cleanUp: every(cleanUpIntervalMs),
        compaction: every(compactionIntervalMs),
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
          reports.note('poll', null);
        } catch (error) {
          if (signal.aborted) break;
          outages += 1;
          onError(error);
          reports.note('poll', error);
        }
        const pauseMs = outages === 0 ? options.pollIntervalMs : backoffMs(outages, 5_000);
        await sleep(pauseMs, undefined, { signal }).catch(() => {});
      }
      if (lost.signal.aborted) log.error('the DuckDB instance failed; the worker starts a new one');
    },

    close() {
      closed ??= closeOnce();
      return closed;
    },
  };
}

type ReportedFailure = NonNullable<OrganizationReport['failure']>;

type Due = Readonly<Record<'requests' | 'sync' | 'cleanUp' | 'compaction', () => boolean>>;

/** The state of an organization of which nothing is reported. */
const states: Readonly<Record<Phase, OrganizationState>> = {
  following: 'live',
  behind: 'catching up',
  'far behind': 'catching up',
  'load required': 'waiting to load',
};
