import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type { Purchase } from '../../domain/purchase.ts';
import {
  type AsOf,
  NoGenerationError,
  type PurchaseEngine,
  type PurchaseReader,
} from '../../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import { createInstance } from '../../duckdb/connection.ts';
import { isChecksumFailure, isInstanceLost } from '../../duckdb/damage.ts';
import { maxIdle } from '../../duckdb/memory.ts';
import { sendWorkerRequest } from '../../purchase-store/worker-requests.ts';
import type { Generation } from './generation.ts';
import { createGenerations, type Generations } from './generations.ts';
import { createAbortableTasks, interruptible } from './interruption.ts';
import { findPurchase, listPurchases } from './list.ts';
import { createQueryPool, type QueryPool } from './query-pool.ts';
import { purchaseStats } from './stats.ts';
import { purchaseTimeSeries } from './time-series.ts';
import { createWaitUntilFresh, type WaitUntilFresh } from './wait-until-fresh.ts';

export type DuckDBEngineOptions = {
  readonly dataDirectory: string;
  readonly threads: number;
  readonly memoryLimit: string;
  /** Queries that run at the same time. */
  readonly concurrency: number;
  /** Queries in the queue, of all clients and of one. Further queries are refused. */
  readonly queueLimit: number;
  readonly queueLimitPerClient: number;
  /** Of a query, including its time in the queue. */
  readonly timeoutMs: number;
  /** Receives the error of a generation that cannot be served. The previous one goes on serving. */
  readonly onError: (organizationId: bigint, error: unknown) => void;
};

/** Of an attached organization. A small organization's file then fits into memory as a whole. */
const memoryPerOrganization = 2 ** 20;

/** Larger exports get the file: another process can then write the export, at no cost to queries. */
const maxListedPurchases = 2_000;

type EngineParts = {
  readonly instance: DuckDBInstance;
  readonly queries: QueryPool;
  readonly exports: ReturnType<typeof createAbortableTasks>;
  readonly generations: Generations;
  readonly waitUntilFresh: WaitUntilFresh;
};

/**
 * Reads the generations that the sync worker publishes. Every method rejects with
 * NoGenerationError until an organization has one, and with QueryTimeoutError after `timeoutMs`.
 */
export async function createDuckDBEngine(options: DuckDBEngineOptions): Promise<PurchaseEngine> {
  const { dataDirectory } = options;
  const spillDirectory = join(dataDirectory, 'spill', `api-${process.pid}`);
  mkdirSync(join(dataDirectory, 'spill'), { recursive: true });
  const instance = await createInstance({ ...options, spillDirectory });
  const queries = createQueryPool(instance, options);
  const exports = createAbortableTasks();
  const generations = createGenerations(instance, {
    ...options,
    maxIdle: maxIdle(options.memoryLimit, memoryPerOrganization),
  });

  const newestAsOf = async (organizationId: bigint, source: string | null): Promise<bigint> => {
    await generations.refresh(organizationId);
    const version = await generations.version(organizationId, source);
    if (version === null) throw new NoGenerationError();
    return version.asOf;
  };
  const waitUntilFresh = createWaitUntilFresh(newestAsOf, (organizationId) => {
    try {
      sendWorkerRequest(dataDirectory, 'refresh', organizationId);
    } catch {
      // The worker publishes at its next regular time.
    }
  });

  const parts = { instance, queries, exports, generations, waitUntilFresh };
  return {
    ...createReader(parts, null),
    forSource: (source) => createReader(parts, source),
    async close() {
      await Promise.all([queries.close(), exports.close()]);
      await generations.close();
      instance.closeSync();
    },
  };
}

/** Reads generations from one source, or from any source if `source` is null. */
function createReader(parts: EngineParts, source: string | null): PurchaseReader {
  const { queries, exports, generations, waitUntilFresh } = parts;
  const run = <Result>(
    organizationId: bigint,
    signal: AbortSignal | undefined,
    client: string | undefined,
    query: (connection: DuckDBConnection, generation: Generation) => Promise<Result>,
  ): Promise<AsOf<Result>> =>
    queries.run(client ?? `organization ${organizationId}`, signal, (connection) =>
      generations
        .use(organizationId, source, async ({ generation, asOf }) => ({
          result: await generations.withEviction(() => query(connection, generation)),
          asOf,
        }))
        .catch(rejectUnreadable),
    );

  return {
    list: (organizationId, query, signal, client) =>
      run(organizationId, signal, client, (connection, generation) =>
        listPurchases(connection, generation, query),
      ),
    get: (organizationId, purchaseId, signal, client) =>
      run(organizationId, signal, client, (connection, generation) =>
        findPurchase(connection, generation, purchaseId),
      ),
    stats: (organizationId, query, signal, client) =>
      run(organizationId, signal, client, (connection, generation) =>
        purchaseStats(connection, generation, query),
      ),
    timeSeries: (organizationId, query, signal, client) =>
      run(organizationId, signal, client, (connection, generation) =>
        purchaseTimeSeries(connection, generation, query),
      ),
    export: (organizationId, filters, take, signal) =>
      exports.run(signal, (either) =>
        generations
          .use(organizationId, source, async ({ generation, descriptors, asOf }) => {
            const few = await listFew(parts, generation, filters, either);
            const result = few === null ? { descriptors } : { purchases: oneBatch(few) };
            return take({ result, asOf }, either);
          })
          .catch(rejectUnreadable),
      ),
    freshness: async (organizationId) =>
      (await generations.version(organizationId, source))?.asOf ?? null,
    version: (organizationId) => generations.version(organizationId, source),
    waitUntilFresh: (organizationId, instant, signal) =>
      waitUntilFresh(organizationId, source, instant, signal),
  };
}

/** NoGenerationError makes another engine run the query. */
function rejectUnreadable(error: unknown): never {
  if (!isChecksumFailure(error) && !isInstanceLost(error)) throw error;
  throw new NoGenerationError('the file cannot be read', { cause: error });
}

/** All matching purchases; null if there are more than `maxListedPurchases`. */
async function listFew(
  { instance, generations }: EngineParts,
  generation: Generation,
  filters: PurchaseFilters,
  signal: AbortSignal,
): Promise<readonly Purchase[] | null> {
  const connection = await instance.connect();
  const list = () => listPurchases(connection, generation, { filters, limit: maxListedPurchases });
  const { purchases, hasMore } = await interruptible(signal, connection, () =>
    generations.withEviction(list),
  ).finally(() => connection.closeSync());
  return hasMore ? null : purchases;
}

async function* oneBatch(purchases: readonly Purchase[]): AsyncGenerator<readonly Purchase[]> {
  if (purchases.length > 0) yield purchases;
}
