import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { Registry } from 'prom-client';
import { encodeId } from '../../src/domain/public-id.ts';
import { invalidatesInstance } from '../../src/duckdb/damage.ts';
import { lacksTables } from '../../src/engines/clickhouse/client.ts';
import { describeDatabaseFailure } from '../../src/postgres/connection/database-failure.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { backoffMs, every } from '../../src/process/backoff.ts';
import { OperatorError } from '../../src/process/operator-error.ts';
import { sendDamageReport } from '../../src/purchase-store/damage/damage-reports.ts';
import { everyOrganization, isOfShard, type Shard } from '../../src/purchase-store/ticks/shard.ts';
import { endPauses } from '../attempts.ts';
import type { Builder } from '../builds/builder.ts';
import { createMapper, describeMappingFailure } from '../mapping/mapper.ts';
import {
  createWorkerMetrics,
  type ObservedWorker,
  type WorkerMetrics,
} from '../metrics/metrics.ts';
import { exceptionsOf, type Organization, type Organizations, reportOf } from '../organization.ts';
import type { OrganizationReport } from '../organization-report.ts';
import type { Store } from '../tick/store.ts';
import { type BuildScheduler, createBuildScheduler } from './build-scheduler.ts';
import { type ContinuousVerification, verifyContinuously } from './continuous-verification.ts';
import { createRequestHandlers } from './request-handlers.ts';
import { createReports } from './status-reports.ts';
import { createSyncAndPrune } from './sync-and-prune.ts';
import { createTickRunner } from './tick-runner.ts';

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
  /** Changes since a load or compaction beyond which the next one is due; smaller in tests. */
  readonly maxLogRecords?: number | undefined;
  readonly log: Logger;
  /** All organizations by default. */
  readonly shard?: Shard;
  /** Verifies continuously, at low priority; not if undefined. */
  readonly verification?: Pick<ContinuousVerification, 'everyMs' | 'open'> | undefined;
  readonly metrics?: WorkerMetrics;
  readonly onReport?: (organizationId: bigint, report: OrganizationReport) => void;
  /** Called after each publication that includes every organization. */
  readonly onUpToDate?: () => void;
};

export type Worker = {
  /** Publishes once. Loads and compacts these organizations if that is due. Rejects with all failures. */
  once(organizations: readonly bigint[]): Promise<void>;
  /**
   * Loads an organization again while what is published serves. Resolves when the load is published.
   * `differsFromPostgres`: what is published differs from Postgres, so the change feed begins anew.
   */
  rebuild(organizationId: bigint, differsFromPostgres?: boolean): Promise<void>;
  /**
   * Follows the change log until the signal is aborted, the DuckDB instance fails, or tables of
   * ClickHouse are missing.
   */
  run(signal: AbortSignal): Promise<void>;
  state(): ObservedWorker;
  /** Ends all work. The next start repeats what is not published. */
  close(): Promise<void>;
};

const requestsIntervalMs = 500;
/** Between two looks at the logs of all organizations, changed or not. */
const compactionIntervalMs = 60_000;

export function createWorker(options: WorkerOptions): Worker {
  const { database, store, dataDirectory, log } = options;
  const { shard = everyOrganization, onReport = () => {} } = options;
  const { metrics = createWorkerMetrics(new Registry()) } = options;
  const closing = new AbortController();
  const { signal } = closing;
  /** Aborted when the DuckDB instance is unusable, or tables of ClickHouse are gone. */
  const lost = new AbortController();
  const onError = (error: unknown) => {
    if (invalidatesInstance(error) || lacksTables(error)) lost.abort(error);
  };
  /** The request handlers rebuild the organization, also those of the next worker. */
  const onDamage = (id: bigint): void => {
    try {
      sendDamageReport(dataDirectory, id, 'CURRENT');
    } catch (error) {
      log.debug({ err: error }, 'cannot report damaged files');
    }
  };
  const organizations: Organizations = new Map();
  const reports = createReports({
    dataDirectory,
    shard,
    organizations,
    log,
    onReport,
    onFailure: metrics.failed,
    onError,
  });
  const mapper = createMapper(options);
  const shared = { ...options, organizations, shard, metrics, reports, signal };
  const ticks = createTickRunner(shared);
  const builds: BuildScheduler = createBuildScheduler({ ...shared, ticks, onDamage });
  const syncAndPrune = createSyncAndPrune({ ...shared, ticks, builds, onError });

  const rebuild: Worker['rebuild'] = async (id, differsFromPostgres = false) => {
    await ticks.start();
    const organization = organizations.get(id);
    if (differsFromPostgres && organization !== undefined) organization.differsFromPostgres = true;
    await builds.rebuild(id, 'a rebuild was requested');
  };
  const isMine = (id: bigint) => isOfShard(id, shard);
  const requests = createRequestHandlers({ ...shared, isMine, builds, rebuild });
  const areRequestsDue = every(requestsIntervalMs);
  const areCompactionsDue = every(compactionIntervalMs);
  let verifying: Promise<void> | null = null;
  let mapping: Promise<void> | null = null;
  let closed: Promise<void> | null = null;

  /** Without an instance, a rebuild would fail. The next worker takes the requests. */
  const takeRequests = async (): Promise<void> => {
    if (areRequestsDue() && !lost.signal.aborted) await requests.take();
  };

  /** Rejects if Postgres does not respond, or a tick cannot be published. */
  const work = async (): Promise<void> => {
    await ticks.start();
    const { changed } = await ticks.pollAndPublish();
    await ticks.joinDue();
    // Before compactions, because merging damaged files may make the next instance fail, too.
    await takeRequests();
    // An earlier worker, or a compaction that failed, may leave long logs of unchanged organizations.
    const compacted = areCompactionsDue() ? organizations.keys() : changed;
    for (const id of compacted) builds.compactIfDue(id);
    await builds.startDue();
    if (exceptionsOf(organizations).length === 0) options.onUpToDate?.();
    syncAndPrune.startDue();
  };

  const verify = async (stopped: AbortSignal): Promise<void> => {
    if (options.verification === undefined) return;
    await verifyContinuously({
      ...options.verification,
      database,
      dataDirectory,
      organizations: () => [...organizations.values()],
      rebuild,
      log,
      metrics,
      signal: stopped,
    });
  };

  const closeOnce = async () => {
    closing.abort(new Error('the worker is stopping'));
    await builds.settled();
    await ticks.settled();
    await syncAndPrune.settled();
    await verifying;
    await mapping;
    reports.close();
    await store.close();
  };

  return {
    async once(wanted) {
      await ticks.start();
      const unmapped = await mapper.once().then(
        () => [],
        (error) => [describeMappingFailure(error).message],
      );
      // An earlier call may have failed.
      for (const { work } of organizations.values()) endPauses(work.failed);
      await ticks.pollAndPublish(true);
      await ticks.joinDue();
      // Each of these organizations settles, or fails and pauses.
      const isWaiting = ({ id, phase }: Organization) =>
        phase !== 'following' && wanted.includes(id);
      for (let round = 0; round < 3; round += 1) {
        await builds.startDue(isWaiting);
        await builds.settled();
        await ticks.joinDue();
      }
      await ticks.pollAndPublish();
      for (const id of wanted) builds.compactIfDue(id);
      await builds.settled();
      const unpublished = [...organizations.values()].filter(isWaiting).map((organization) => {
        const { failure } = reportOf(organization);
        const reason = failure?.message ?? 'it was not published';
        return `${encodeId('organization', organization.id)}: ${reason}`;
      });
      const messages = [...unmapped, ...unpublished];
      if (messages.length > 0) throw new OperatorError(messages.join('\n'));
      await syncAndPrune.now();
      await syncAndPrune.cleanUp();
    },

    rebuild,

    state: () => ({
      lastPoll: ticks.lastPoll(),
      organizations: [...organizations.values()].map((organization) => {
        const { id, phase, watermark } = organization;
        const isException = phase !== 'following';
        return {
          state: reportOf(organization).state,
          isException,
          asOf: isException ? (watermark?.asOf ?? null) : ticks.asOf(id),
          size: store.sizeOf(id),
        };
      }),
    }),

    async run(stopped) {
      const ending = AbortSignal.any([stopped, lost.signal, signal]);
      let outages = 0;
      log.info(
        { ...(shard.of > 1 ? { shard: `${shard.number}/${shard.of}` } : {}) },
        'following changes',
      );
      verifying = verify(ending);
      mapping = mapper.run(ending);
      while (!ending.aborted) {
        try {
          await work();
          outages = 0;
          reports.note('poll', null);
        } catch (error) {
          if (ending.aborted) break;
          outages += 1;
          onError(error);
          reports.note('poll', error);
          // Commands get the failure as the response, unless the next poll may succeed.
          const isTransient = describeDatabaseFailure(error)?.isTransient === true;
          if (!isTransient) await takeRequests().catch(() => {});
        }
        const pauseMs = outages === 0 ? options.pollIntervalMs : backoffMs(outages, 5_000);
        await sleep(pauseMs, undefined, { signal: ending }).catch(() => {});
      }
      if (!lost.signal.aborted) return;
      log.error(
        lacksTables(lost.signal.reason)
          ? 'tables of ClickHouse are missing; the worker creates them'
          : 'the DuckDB instance failed; the worker starts a new one',
      );
    },

    close() {
      closed ??= closeOnce();
      return closed;
    },
  };
}
