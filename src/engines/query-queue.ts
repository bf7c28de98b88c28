import { organizationSlots } from '../domain/organization-slots.ts';
import { QueryTimeoutError, QueueFullError } from '../domain/purchase-engine.ts';
import { createTurns, type QueryClient } from './turns.ts';

/**
 * Runs a bounded number of queries at the same time.
 *
 * The queue is fair between organizations, and then between the clients of each. One organization
 * occupies all slots but one. Organizations with queries in the queue take the free slots in turn, and
 * so do the clients of each.
 */
export type QueryQueue = {
  /**
   * Runs `query` on behalf of `client`. The signal that `query` receives is aborted, and the
   * promise rejected with its reason, when the signal is aborted or `timeoutMs` have passed,
   * including the time in the queue: with QueueFullError if the query still waits. Rejects at once with
   * it if the query would have to wait and the client, its organization or all have too many queries in
   * the queue.
   */
  run<Result>(
    client: QueryClient,
    signal: AbortSignal | undefined,
    query: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result>;
  /** The queries that run and wait now. */
  state(): { readonly running: number; readonly waiting: number };
  /** Resolves when all queries have ended. */
  close(): Promise<void>;
};

export type QueryQueueOptions = {
  readonly concurrency: number;
  /** Queries in the queue, of all clients and of one. Further queries are refused. */
  readonly queueLimit: number;
  /** One organization leaves so many to others as well. */
  readonly queueLimitPerClient: number;
  /** Of a query, including its time in the queue. */
  readonly timeoutMs: number;
};

export function createQueryQueue(options: QueryQueueOptions): QueryQueue {
  const { concurrency, queueLimit, queueLimitPerClient, timeoutMs } = options;
  const slotsEach = organizationSlots(concurrency);
  const queueLimitEach = Math.max(queueLimitPerClient, queueLimit - queueLimitPerClient);
  const waiting = createTurns();
  const running = new Map<bigint, number>();
  const queries = new Set<Promise<unknown>>();
  let runningCount = 0;

  const hasSlot = (organizationId: bigint) =>
    runningCount < concurrency && (running.get(organizationId) ?? 0) < slotsEach;

  const isFull = (client: QueryClient) => {
    const { own, organization } = waiting.countOf(client);
    return (
      own >= queueLimitPerClient || organization >= queueLimitEach || waiting.total() >= queueLimit
    );
  };

  const takeSlot = (organizationId: bigint): void => {
    runningCount += 1;
    running.set(organizationId, (running.get(organizationId) ?? 0) + 1);
  };

  const freeSlot = (organizationId: bigint): void => {
    runningCount -= 1;
    const rest = (running.get(organizationId) ?? 0) - 1;
    if (rest === 0) running.delete(organizationId);
    else running.set(organizationId, rest);
    waiting.takeNext(hasSlot)?.();
  };

  /** Resolves when the query has a slot. Leaves the queue as soon as the signal is aborted. */
  const waitForSlot = (client: QueryClient, signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      const start = () => {
        signal.removeEventListener('abort', leave);
        takeSlot(client.organizationId);
        resolve();
      };
      const leave = () => {
        waiting.remove(client, start);
        const isLate = signal.reason instanceof QueryTimeoutError;
        reject(isLate ? new QueueFullError('no slot became free in time') : signal.reason);
      };
      if (hasSlot(client.organizationId)) return start();
      signal.addEventListener('abort', leave, { once: true });
      waiting.add(client, start);
    });

  const runQueued = async <Result>(
    client: QueryClient,
    signal: AbortSignal,
    query: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> => {
    await waitForSlot(client, signal);
    // A running query keeps its slot until it has ended, also after an abort.
    try {
      return await query(signal);
    } finally {
      freeSlot(client.organizationId);
    }
  };

  return {
    async run(client, signal, query) {
      signal?.throwIfAborted();
      if (!hasSlot(client.organizationId) && isFull(client)) {
        throw new QueueFullError('too many queries are in the queue');
      }
      const deadline = new AbortController();
      const timer = setTimeout(
        () => deadline.abort(new QueryTimeoutError(`no result in ${timeoutMs} ms`)),
        timeoutMs,
      );
      const either =
        signal === undefined ? deadline.signal : AbortSignal.any([signal, deadline.signal]);
      const running = runQueued(client, either, query).finally(() => {
        clearTimeout(timer);
        queries.delete(running);
      });
      queries.add(running);
      return running;
    },
    state: () => ({ running: runningCount, waiting: waiting.total() }),
    async close() {
      await Promise.allSettled(queries);
    },
  };
}
