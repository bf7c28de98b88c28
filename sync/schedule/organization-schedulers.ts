import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { encodeId } from '../../src/domain/public-id.ts';
import { listOrganizations } from '../../src/postgres/organizations.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { organizationDirectory } from '../../src/purchase-store/published-generation.ts';
import type { WorkerObserver } from '../metrics/observer.ts';
import { isOfShard, type Shard } from '../shard.ts';
import { createReporter, type OrganizationReport } from '../status/report.ts';
import type { WorkerFailures } from '../status/worker-failure.ts';
import type { Repairs } from '../verification/repair.ts';
import { createScheduler, type Scheduler } from './scheduler.ts';
import type { BuildLimits, Store } from './store.ts';

export type OrganizationSchedulers = {
  readonly all: ReadonlyMap<bigint, Scheduler>;
  /** Creates the scheduler if there is none yet. */
  of(organizationId: bigint): Scheduler;
  /** Adds new organizations. Removes deleted ones, with their purchases. */
  refresh(): Promise<void>;
  repairsFor(organizationId: bigint): Repairs;
  close(): Promise<void>;
};

export function createOrganizationSchedulers(
  options: BuildLimits & {
    readonly database: Database;
    readonly store: Store;
    readonly dataDirectory: string;
    readonly concurrency: number;
    readonly shard: Shard;
    readonly failures: WorkerFailures;
    readonly signal: AbortSignal;
    readonly log: Logger;
    readonly observer: WorkerObserver;
    readonly onReport: (organizationId: bigint, report: OrganizationReport) => void;
    readonly onFailure: (error: unknown) => void;
  },
): OrganizationSchedulers {
  const { database, store, dataDirectory, shard, failures, signal, log, observer, onFailure } =
    options;
  const all = new Map<bigint, Scheduler>();
  const queues = {
    changes: new PQueue({ concurrency: options.concurrency }),
    builds: new PQueue({ concurrency: options.concurrency }),
  };

  const create = (organizationId: bigint): Scheduler => {
    const organizationLog = log.child({ organization: encodeId('organization', organizationId) });
    return createScheduler({
      replicator: store.createReplicator({ ...options, organizationId, log: organizationLog }),
      queues,
      reporter: createReporter(
        organizationDirectory(dataDirectory, organizationId),
        (report) => options.onReport(organizationId, report),
        (error) => failures.note(`writing STATUS of ${organizationId}`, error),
      ),
      signal,
      log: organizationLog,
      observer,
      onFailure,
    });
  };

  const of = (organizationId: bigint): Scheduler => {
    const scheduler = all.get(organizationId) ?? create(organizationId);
    all.set(organizationId, scheduler);
    return scheduler;
  };

  return {
    all,
    of,

    async refresh() {
      const organizations = (await listOrganizations(database)).map(({ id }) => id);
      const present = new Set(organizations.filter((id) => isOfShard(id, shard)));
      for (const id of present) of(id);
      for (const [id, scheduler] of all) {
        if (present.has(id) || scheduler.isBusy()) continue;
        all.delete(id);
        await scheduler.close();
        await store.remove(id);
        failures.note(`writing STATUS of ${id}`, null);
        log.info({ organization: encodeId('organization', id) }, 'deleted, with its purchases');
      }
    },

    repairsFor: (organizationId) => ({
      reread: (ranges) => of(organizationId).reread(ranges),
      rebuild: () => of(organizationId).build('load', 'a rebuild was requested'),
    }),

    async close() {
      await Promise.all([...all.values()].map((scheduler) => scheduler.close()));
    },
  };
}
