import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { encodeId } from '../../src/domain/public-id.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { every } from '../../src/process/backoff.ts';
import type { Shard } from '../../src/purchase-store/ticks/shard.ts';
import { isDue } from '../attempts.ts';
import { pollChangeLog, removeForeignEntries, retainChangeLog } from '../capture/change-log.ts';
import { isDataError } from '../describe-failure.ts';
import type { ObservedWorker, WorkerMetrics } from '../metrics/metrics.ts';
import { exceptionsOf, type Organization, type Organizations } from '../organization.ts';
import { joinBehind } from '../tick/join.ts';
import { refreshOrganizations } from '../tick/organization-list.ts';
import type { Publication } from '../tick/publication.ts';
import { startPublication } from '../tick/start-publication.ts';
import type { Store } from '../tick/store.ts';
import { runTick } from '../tick/tick.ts';
import {
  defaultMaxTickChanges,
  noChanges,
  type TickContext,
  type TickResult,
} from '../tick/tick-steps.ts';
import type { Reports } from './status-reports.ts';

export type TickRunner = ReturnType<typeof createTickRunner>;

type TickRunnerOptions = {
  readonly database: Database;
  readonly store: Store;
  readonly shard: Shard;
  readonly dataFolderId: string;
  readonly maxTickChanges?: number | undefined;
  readonly organizations: Organizations;
  readonly reports: Reports;
  readonly metrics: WorkerMetrics;
  readonly log: Logger;
  readonly signal: AbortSignal;
};

const organizationsIntervalMs = 500;

/**
 * Polls the change log, and runs ticks and joins: publishes the changes of all organizations that follow, and
 * makes others follow again. Runs one publication at a time.
 */
export function createTickRunner(options: TickRunnerOptions) {
  const { database, store, shard, organizations, reports, metrics, log, signal } = options;
  const { maxTickChanges = defaultMaxTickChanges } = options;
  const source = { database, store, shard };
  /** The name under which this worker retains the change log. */
  const reader = `${options.dataFolderId} ${shard.number}/${shard.of}`;
  // One publication at a time: a tick, a join, or the end of a build.
  const publications = new PQueue({ concurrency: 1 });
  /** Runs `work` while no tick and no other publication runs. */
  const exclusively = <Result>(work: () => Promise<Result>): Promise<Result> =>
    publications.add(async () => {
      signal.throwIfAborted();
      return work();
    });
  let publication: Publication | null = null;
  let starting: Promise<void> | null = null;
  const organizationsDue = every(organizationsIntervalMs);
  let organizationsDigest = '';
  let lastPoll: ObservedWorker['lastPoll'] = null;

  const onFailure = (organization: Organization, error: unknown): void => {
    metrics.failed('changes');
    reports.failed(organization, 'join', error);
  };

  /** Throws before `start`. */
  const context = (): TickContext => {
    if (publication === null) throw new Error('the worker has not started');
    return { database, store, organizations, publication, maxTickChanges, onFailure };
  };

  const startOnce = async (): Promise<void> => {
    await removeForeignEntries(database);
    // Retained before the first load: workers of other data folders prune entries that no reader retains.
    await retainChangeLog(database, reader);
    organizations.clear();
    publication = await startPublication(source, organizations, (id, error) =>
      log.error({ organization: encodeId('organization', id), err: error }, 'cannot be continued'),
    );
  };

  /** Concurrent calls share one start. */
  const start = async (): Promise<void> => {
    if (publication !== null) return;
    starting ??= startOnce().finally(() => {
      starting = null;
    });
    await starting;
  };

  /** One poll of the change log, and a tick if it has changes. */
  const pollAndPublish = (withOrganizations = organizationsDue()): Promise<TickResult> =>
    exclusively(async () => {
      const current = context().publication;
      const startedAt = performance.now();
      const poll = await pollChangeLog(database, current.watermark, shard, withOrganizations);
      if (poll.organizations !== null && poll.organizations !== organizationsDigest) {
        const isComplete = await refreshOrganizations(source, organizations, reports.removed);
        organizationsDigest = isComplete ? poll.organizations : '';
      }
      if (poll.asOf < current.asOf) {
        const seconds = Number(current.asOf - poll.asOf) / 1e6;
        log.warn({ seconds }, "Postgres's clock went back: responses state earlier instants again");
      }
      const polledAt = performance.now();
      current.notePoll(poll.now);
      let result = noChanges;
      if (poll.isTickDue) {
        result = await runTick(context());
        metrics.published(result.changes, result.bytes, performance.now() - polledAt);
      } else {
        await current.publish(current.watermark, poll.asOf, poll.mapped ?? null);
      }
      // A poll counts once its tick is published: a store that cannot be written ends the count.
      lastPoll = { instant: poll.now, at: polledAt };
      metrics.polled(polledAt - startedAt);
      return result;
    });

  /** Organizations that are behind and show the same snapshot join together. */
  const joinDue = async (): Promise<void> => {
    const groups = new Map<string, Organization[]>();
    for (const organization of exceptionsOf(organizations)) {
      const { phase, watermark, work } = organization;
      if (phase !== 'behind' || watermark === null || work.build !== null) continue;
      if (!isDue(work.failed, 'join')) continue;
      const { snapshot } = watermark;
      groups.set(snapshot, [...(groups.get(snapshot) ?? []), organization]);
    }
    for (const group of groups.values()) await join(group);
  };

  const join = async (group: readonly Organization[]): Promise<void> => {
    const since = group[0]?.watermark;
    if (since == null) return;
    try {
      await exclusively(() => joinBehind(context(), group, since));
      for (const organization of group) {
        if (organization.phase === 'following') reports.succeeded(organization, 'join');
      }
    } catch (error) {
      if (signal.aborted) return;
      // One organization's rows must not keep others from joining.
      if (!isDataError(error)) throw error;
      if (group.length > 1) for (const organization of group) await join([organization]);
      else onFailure(group[0] as Organization, error);
    }
  };

  return {
    organizations,
    reader,
    context,
    exclusively,
    start,
    pollAndPublish,
    joinDue,
    lastPoll: () => lastPoll,
    /** The instant of the published tick for an organization that follows; null before `start`. */
    asOf: (organizationId: bigint): bigint | null =>
      publication?.watermarkOf(organizationId).asOf ?? null,
    /** Resolves when no publication runs or waits. */
    settled: (): Promise<void> => publications.onIdle(),
  };
}
