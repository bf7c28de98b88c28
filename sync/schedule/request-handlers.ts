import type { Logger } from 'pino';
import { encodeId } from '../../src/domain/public-id.ts';
import { takeWorkerRequests } from '../../src/purchase-store/worker-requests.ts';
import { type TakenRequests, takeRequests } from '../commands/requests.ts';
import { describeFailure } from '../failure.ts';
import { isOfShard, type Shard } from '../shard.ts';
import type { OrganizationSchedulers } from './organization-schedulers.ts';

/** Handles requests of commands and of the API. */
type RequestHandlers = {
  /** Starts the repairs and rebuilds that commands request. Each command receives a response at the end. */
  takeCommandRequests(): Promise<void>;
  /** Rebuilds files that the API could not read, unless another generation has replaced them. */
  rebuildDamagedFiles(): void;
  /** False if the API requests no refresh. */
  takeRefreshRequests(): boolean;
};

export function createRequestHandlers(options: {
  readonly dataDirectory: string;
  readonly shard: Shard;
  readonly schedulers: OrganizationSchedulers;
  readonly signal: AbortSignal;
  readonly log: Logger;
}): RequestHandlers {
  const { dataDirectory, shard, schedulers, signal, log } = options;
  const isMine = (organizationId: bigint) => isOfShard(organizationId, shard);
  const takenRequests: TakenRequests = new Map();

  return {
    async takeCommandRequests() {
      for (const { request, respond } of await takeRequests(dataDirectory, shard, takenRequests)) {
        const { reread, rebuild } = schedulers.repairsFor(request.organizationId);
        void (request.kind === 'reread' ? reread(request.ranges) : rebuild())
          .then(
            () => respond(null),
            async (error) => {
              // If this worker stops, the next worker responds.
              if (!signal.aborted) await respond(describeFailure(error).message);
            },
          )
          .catch((error) => log.error({ err: error }, 'cannot respond to a request'));
      }
    },

    rebuildDamagedFiles() {
      let requests: ReadonlyMap<bigint, string>;
      try {
        requests = takeWorkerRequests(dataDirectory, 'damaged', isMine);
      } catch (error) {
        log.debug({ err: error }, 'cannot read reports of damaged files');
        return;
      }
      for (const [id, file] of requests) {
        const scheduler = schedulers.all.get(id);
        if (scheduler === undefined || !scheduler.replicator.isDamageToRepair(file)) continue;
        const organization = encodeId('organization', id);
        log.error({ organization, file }, 'a published file is damaged; check the disk');
        void scheduler.build('load', 'the published file is damaged').catch(() => {});
      }
    },

    takeRefreshRequests() {
      try {
        const requests = takeWorkerRequests(dataDirectory, 'refresh', isMine);
        for (const id of requests.keys()) schedulers.all.get(id)?.requestRefresh();
        return requests.size > 0;
      } catch (error) {
        // If requests cannot be removed, organizations are refreshed in their turn.
        log.debug({ err: error }, 'cannot read refresh requests');
        return false;
      }
    },
  };
}
