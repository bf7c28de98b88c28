import type { ChangeFeed } from '../../domain/purchase-changes.ts';
import {
  NoGenerationError,
  type PurchaseEngine,
  type PurchaseReader,
  type QueuedRead,
  StoreUnavailableError,
} from '../../domain/purchase-engine.ts';
import { createWaitUntilFresh, type WaitUntilFresh } from '../../domain/wait-until-fresh.ts';
import { createAbortableTasks } from '../abortable-tasks.ts';
import { createQueryQueue, type QueryQueue, type QueryQueueOptions } from '../query-queue.ts';
import { createChangeFeed } from './change-feed.ts';
import type { ClickHouse } from './client.ts';
import { type FindGeneration, type Generation, newestGeneration } from './generation.ts';
import { exportPurchases, findPurchase, listPurchases } from './list.ts';
import {
  createRequestedOrganizations,
  type RequestedOrganizations,
} from './requested-organizations.ts';
import { purchaseStats } from './stats.ts';
import { purchaseTimeSeries } from './time-series.ts';

/** The engine with its change feed, and its state for metrics and probes. */
export type ClickHouseEngine = PurchaseEngine & {
  readonly queries: Pick<QueryQueue, 'state'>;
  readonly requested: Pick<RequestedOrganizations, 'oldest'>;
  readonly changes: ChangeFeed;
};

/** Reads the generations that the sync worker publishes in ClickHouse. `close` closes the client. */
export function createClickHouseEngine(
  clickhouse: ClickHouse,
  options: QueryQueueOptions,
): ClickHouseEngine {
  const queries = createQueryQueue(options);
  const requested = createRequestedOrganizations();
  const exports = createAbortableTasks();
  const find: FindGeneration = async (organizationId, source, signal) => {
    const deadline = AbortSignal.timeout(options.timeoutMs);
    const either = signal === undefined ? deadline : AbortSignal.any([signal, deadline]);
    const reading = newestGeneration(clickhouse, organizationId, either);
    const generation = await reading.catch((error) => {
      if (error !== deadline.reason) throw error;
      throw new StoreUnavailableError(`ClickHouse did not respond in ${options.timeoutMs} ms`);
    });
    if (generation === null || (source !== null && generation.source !== source)) return null;
    requested.record(organizationId, generation);
    return generation;
  };
  const newestAsOf = async (organizationId: bigint, source: string | null, signal: AbortSignal) =>
    required(await find(organizationId, source, signal)).asOf;
  const waitUntilFresh = createWaitUntilFresh(newestAsOf);
  const readerOptions = { clickhouse, queries, exports, find, waitUntilFresh };
  const changes = createChangeFeed({ clickhouse, queries, find });
  return {
    ...createReader(readerOptions, null),
    forSource: (source) => createReader(readerOptions, source),
    queries,
    requested,
    changes,
    async close() {
      await exports.close();
      await queries.close();
      await clickhouse.close();
    },
  };
}

type ReaderOptions = {
  readonly clickhouse: ClickHouse;
  readonly queries: QueryQueue;
  readonly exports: ReturnType<typeof createAbortableTasks>;
  readonly find: FindGeneration;
  readonly waitUntilFresh: WaitUntilFresh;
};

function createReader(options: ReaderOptions, source: string | null): PurchaseReader {
  const { clickhouse, queries, exports, find, waitUntilFresh } = options;

  const queued =
    <Query, Result>(
      read: (
        clickhouse: ClickHouse,
        generation: Generation,
        query: Query,
        signal: AbortSignal,
      ) => Promise<Result>,
    ): QueuedRead<Query, Result> =>
    (organizationId, query, signal, client) =>
      queries.run({ organizationId, name: client }, signal, async (either) => {
        const generation = required(await find(organizationId, source, either));
        const result = await read(clickhouse, generation, query, either);
        return { result, asOf: generation.asOf };
      });

  return {
    list: queued(listPurchases),
    get: queued(findPurchase),
    stats: queued(purchaseStats),
    timeSeries: queued(purchaseTimeSeries),
    export: (organizationId, filters, take, signal) =>
      exports.run(signal, async (either) => {
        const generation = required(await find(organizationId, source, either));
        const purchases = exportPurchases(clickhouse, generation, filters, either);
        return take({ result: { purchases }, asOf: generation.asOf }, either);
      }),
    freshness: async (organizationId) => (await find(organizationId, source))?.asOf ?? null,
    version: async (organizationId) => {
      const generation = await find(organizationId, source);
      return generation && { name: `clickhouse ${generation.name}`, asOf: generation.asOf };
    },
    waitUntilFresh: (organizationId, instant, signal) =>
      waitUntilFresh(organizationId, source, instant, signal),
  };
}

function required(generation: Generation | null): Generation {
  if (generation === null) throw new NoGenerationError();
  return generation;
}
