import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import type { Purchase } from '../../domain/purchase.ts';
import {
  type AsOf,
  NoGenerationError,
  type PurchaseAnswers,
  type PurchaseEngine,
} from '../../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import { createInstance } from '../../duckdb/connection.ts';
import { isChecksumFailure, isInstanceLost } from '../../duckdb/damage.ts';
import { maxIdle } from '../../duckdb/memory.ts';
import { sendWorkerRequest } from '../../purchase-store/worker-requests.ts';
import { createEndableTasks } from './endable-tasks.ts';
import { followGenerations, type GenerationLease } from './generations.ts';
import { interruptible } from './interruption.ts';
import type { Generation } from './labels.ts';
import { findPurchase, listPurchases } from './list.ts';
import { createQueryPool } from './query-pool.ts';
import { purchaseStats } from './stats.ts';
import { createWaitUntilFresh } from './wait-until-fresh.ts';

export type DuckDBEngineOptions = {
  readonly dataDirectory: string;
  readonly threads: number;
  readonly memoryLimit: string;
  /** Questions answered at the same time; the others wait. */
  readonly concurrency: number;
  /** Queries that wait, of all clients and of one; one more is refused. */
  readonly queueLimit: number;
  readonly queueLimitPerClient: number;
  /** From when a question is asked until its answer. */
  readonly timeoutMs: number;
  /** Told of a generation that cannot be served; the one before it goes on. */
  readonly onError: (organizationId: bigint, error: unknown) => void;
};

/** Of an organization that is attached: enough to have all of a small one's file in memory. */
const memoryOfEach = 2 ** 20;

/** An export of more purchases gets the file: another process can write it, at no cost to queries. */
const maxListed = 2_000;

/**
 * Answers from the generations that the sync worker publishes. Every method
 * rejects with NoGenerationError until an organization has one, and with
 * QueryTimeoutError where an answer takes longer than `timeoutMs`.
 */
export async function createDuckDBEngine(options: DuckDBEngineOptions): Promise<PurchaseEngine> {
  const spillDirectory = join(options.dataDirectory, 'spill', `api-${process.pid}`);
  mkdirSync(join(options.dataDirectory, 'spill'), { recursive: true });
  const instance = await createInstance({ ...options, spillDirectory });
  const queries = createQueryPool(instance, options);
  const exports = createEndableTasks();
  const generations = followGenerations(instance, {
    ...options,
    maxIdle: maxIdle(options.memoryLimit, memoryOfEach),
  });

  /** If a query finds damage, the worker is asked to rebuild the file. */
  const withLease = async <Result>(
    organizationId: bigint,
    source: string | null,
    use: (lease: GenerationLease) => Promise<Result>,
  ): Promise<Result> => {
    const lease = await generations.acquire(organizationId, source);
    if (lease === null) throw new NoGenerationError();
    try {
      return await use(lease);
    } catch (error) {
      if (isChecksumFailure(error) || isInstanceLost(error)) {
        options.onError(organizationId, error);
      }
      if (isChecksumFailure(error)) generations.reportDamage(organizationId, lease.file);
      throw error;
    } finally {
      lease.release();
    }
  };

  /** What would answer now, without a query. */
  const look = async (organizationId: bigint, source: string | null) => {
    const lease = await generations.acquire(organizationId, source);
    lease?.release();
    return lease;
  };

  const newestAsOf = async (organizationId: bigint, source: string | null): Promise<bigint> => {
    await generations.refresh(organizationId);
    const lease = await look(organizationId, source);
    if (lease === null) throw new NoGenerationError();
    return lease.asOf;
  };
  const reach = createWaitUntilFresh(newestAsOf, (organizationId) => {
    try {
      sendWorkerRequest(options.dataDirectory, 'refresh', organizationId);
    } catch {
      // The worker publishes in its own time.
    }
  });

  /** All purchases that match; null if they are more than `maxListed`. */
  const listFew = async (
    generation: Generation,
    filters: PurchaseFilters,
    signal: AbortSignal,
  ): Promise<readonly Purchase[] | null> => {
    const connection = await instance.connect();
    const list = () => listPurchases(connection, generation, { filters, limit: maxListed });
    const { purchases, hasMore } = await interruptible(signal, connection, () =>
      generations.withRoom(list),
    ).finally(() => connection.closeSync());
    return hasMore ? null : purchases;
  };

  const answersFrom = (source: string | null): PurchaseAnswers => {
    const answer = <Answer>(
      organizationId: bigint,
      signal: AbortSignal | undefined,
      client: string | undefined,
      ask: (connection: DuckDBConnection, generation: Generation) => Promise<Answer>,
    ): Promise<AsOf<Answer>> =>
      queries.run(client ?? `organization ${organizationId}`, signal, (connection) =>
        withLease(organizationId, source, async ({ generation, asOf }) => ({
          answer: await generations.withRoom(() => ask(connection, generation)),
          asOf,
        })).catch((error: unknown) => {
          // Another engine can answer.
          if (!isChecksumFailure(error) && !isInstanceLost(error)) throw error;
          throw new NoGenerationError('the file cannot be read', { cause: error });
        }),
      );

    return {
      list: (organizationId, query, signal, client) =>
        answer(organizationId, signal, client, (connection, generation) =>
          listPurchases(connection, generation, query),
        ),
      get: (organizationId, purchaseId, signal, client) =>
        answer(organizationId, signal, client, (connection, generation) =>
          findPurchase(connection, generation, purchaseId),
        ),
      stats: (organizationId, query, signal, client) =>
        answer(organizationId, signal, client, (connection, generation) =>
          purchaseStats(connection, generation, query),
        ),
      export: (organizationId, filters, take, signal) =>
        exports.run(signal, (either) =>
          withLease(organizationId, source, async ({ generation, descriptor, asOf }) => {
            const few = await listFew(generation, filters, either);
            const answer = few === null ? { descriptor } : { purchases: oneBatch(few) };
            return take({ answer, asOf }, either);
          }),
        ),
      freshness: async (organizationId) => (await look(organizationId, source))?.asOf ?? null,
      version: async (organizationId) => {
        const lease = await look(organizationId, source);
        return lease === null ? null : { name: lease.file, asOf: lease.asOf };
      },
      reach: (organizationId, instant, signal) => reach(organizationId, source, instant, signal),
    };
  };

  return {
    ...answersFrom(null),
    forSource: answersFrom,
    async close() {
      await Promise.all([queries.close(), exports.close()]);
      await generations.close();
      instance.closeSync();
    },
  };
}

async function* oneBatch(purchases: readonly Purchase[]): AsyncGenerator<readonly Purchase[]> {
  if (purchases.length > 0) yield purchases;
}
