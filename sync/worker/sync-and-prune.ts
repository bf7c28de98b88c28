import PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { every } from '../../src/process/backoff.ts';
import { pruneChangeLog } from '../capture/change-log.ts';
import { exceptionsOf } from '../organization.ts';
import type { Store } from '../tick/store.ts';
import type { BuildScheduler } from './build-scheduler.ts';
import type { Reports } from './status-reports.ts';
import type { TickRunner } from './tick-runner.ts';

const syncIntervalMs = 5_000;
const cleanUpIntervalMs = 60_000;
/** An organization that does not follow for longer is loaded when it can be. */
const maxRetentionMicroseconds = 3_600_000_000n;

/** Syncs to the disk, prunes the change log, and removes unused data. */
export function createSyncAndPrune(options: {
  readonly database: Database;
  readonly store: Store;
  readonly ticks: TickRunner;
  readonly builds: BuildScheduler;
  readonly reports: Reports;
  readonly onError: (error: unknown) => void;
  readonly log: Logger;
  readonly signal: AbortSignal;
}) {
  const { database, store, ticks, builds, reports, log, signal } = options;
  const { context, organizations, exclusively } = ticks;
  const queue = new PQueue({ concurrency: 1 });
  const isSyncDue = every(syncIntervalMs);
  const isCleanUpDue = every(cleanUpIntervalMs);

  const now = async (): Promise<void> => {
    const { publication } = context();
    const synced = await store.sync(exclusively, () =>
      publication.publish(publication.watermark, publication.asOf),
    );
    const { asOf } = publication;
    const exceptions = exceptionsOf(organizations).flatMap(({ watermark }) =>
      watermark !== null && watermark.asOf > asOf - maxRetentionMicroseconds
        ? [watermark.snapshot]
        : [],
    );
    const retained = builds.retained();
    // The next call prunes.
    if (retained === null) return;
    const snapshots = [synced, ...exceptions, ...retained];
    await pruneChangeLog(database, ticks.reader, snapshots, signal);
  };

  const cleanUp = (): Promise<void> =>
    store
      .cleanUp(
        (id) => organizations.has(id),
        (id) => (organizations.get(id)?.work.build ?? null) !== null,
      )
      .catch((error) => log.debug({ err: error }, 'cannot remove unused purchases now'));

  return {
    /** Syncs and prunes. */
    now,
    cleanUp,

    /** Starts due work without waiting: the disk, and deleting millions of entries, may take seconds. */
    startDue(): void {
      if (isSyncDue() && queue.pending + queue.size === 0) {
        void queue.add(async () => {
          await now().then(
            () => reports.note('pruning', null),
            (error) => {
              if (signal.aborted) return;
              options.onError(error);
              reports.note('pruning', error);
            },
          );
        });
      }
      if (isCleanUpDue()) void queue.add(cleanUp);
    },

    settled: () => queue.onIdle(),
  };
}
