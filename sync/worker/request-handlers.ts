import type { Logger } from 'pino';
import { encodeId } from '../../src/domain/public-id.ts';
import { takeDamageReports } from '../../src/purchase-store/damage/damage-reports.ts';
import type { Shard } from '../../src/purchase-store/ticks/shard.ts';
import { describeFailure } from '../describe-failure.ts';
import { damagedFiles, type Organizations } from '../organization.ts';
import type { Store } from '../tick/store.ts';
import type { BuildScheduler } from './build-scheduler.ts';
import { type TakenRequests, takeRequests } from './rebuild-requests.ts';

/** A second rebuild within this time would not repair what the first one did not. */
const damageIntervalMs = 600_000;

/** Handles requests of commands, and reports of the API. */
export function createRequestHandlers(options: {
  readonly dataDirectory: string;
  readonly shard: Shard;
  readonly isMine: (organizationId: bigint) => boolean;
  readonly store: Store;
  readonly organizations: Organizations;
  readonly builds: BuildScheduler;
  readonly rebuild: (organizationId: bigint, differsFromPostgres: boolean) => Promise<void>;
  readonly signal: AbortSignal;
  readonly log: Logger;
}) {
  const { dataDirectory, shard, store, organizations, builds, signal, log } = options;
  const takenRequests: TakenRequests = new Map();
  /** Paths of reports whose failure was logged. */
  const loggedPaths = new Set<string>();

  const takeCommandRequests = async (): Promise<void> => {
    for (const { request, respond } of await takeRequests(dataDirectory, shard, takenRequests)) {
      void options
        .rebuild(request.organizationId, request.differsFromPostgres)
        .then(
          () => respond(null),
          async (error) => {
            // If this worker stops, the next worker responds.
            if (!signal.aborted) await respond(describeFailure(error).message);
          },
        )
        .catch((error) => log.error({ err: error }, 'cannot respond to a request'));
    }
  };

  const rebuildDamaged = (): void => {
    let reports: ReadonlyMap<bigint, string>;
    try {
      reports = takeDamageReports(dataDirectory, options.isMine, (path, error) => {
        if (loggedPaths.has(path)) return;
        loggedPaths.add(path);
        log.error({ file: path, err: error }, 'cannot read or remove a report of damaged files');
      });
    } catch (error) {
      log.debug({ err: error }, 'cannot read reports of damaged files');
      return;
    }
    const now = performance.now();
    for (const [id, file] of reports) {
      const work = organizations.get(id)?.work;
      if (work === undefined || now < work.ignoresDamageUntil) continue;
      if (!store.isPublished(id, file)) continue;
      work.ignoresDamageUntil = now + damageIntervalMs;
      const organization = encodeId('organization', id);
      log.error(
        { organization, file },
        'what is published is damaged; check the disk, or ClickHouse',
      );
      void builds.rebuild(id, damagedFiles).catch(() => {});
    }
  };

  return {
    /** Starts the rebuilds that are requested. Each command receives a response at the end. */
    async take(): Promise<void> {
      await takeCommandRequests();
      rebuildDamaged();
    },
  };
}
