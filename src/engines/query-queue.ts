import PQueue from 'p-queue';
import { QueryTimeoutError, QueueFullError } from '../domain/purchase-engine.ts';

/**
 * Runs a bounded number of queries at the same time.
 *
 * The queue is fair: each client has a queue of its own, from which at most
 * `concurrency - 1` queries at a time go to the common one. So one slot stays available to
 * other clients, and a client waits for at most that many queries of each other client.
 */
export type QueryQueue = {
  /**
   * Runs `query` on behalf of `client`. The signal that `query` receives is aborted, and the
   * promise rejected with its reason, when the signal is aborted or `timeoutMs` have passed,
   * including the time in the queue: with QueueFullError if the query still waits. Rejects at once with
   * it if the query would have to wait and the client or all clients have too many queries in the queue.
   */
  run<Result>(
    client: string,
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
  readonly queueLimitPerClient: number;
  /** Of a query, including its time in the queue. */
  readonly timeoutMs: number;
};

/** The client of a query that names none. */
export const defaultClient = (organizationId: bigint): string => `organization ${organizationId}`;

type ClientQueue = { readonly queue: PQueue; waiting: number };

export function createQueryQueue(options: QueryQueueOptions): QueryQueue {
  const { concurrency, queueLimit, queueLimitPerClient, timeoutMs } = options;
  const common = new PQueue({ concurrency });
  const clients = new Map<string, ClientQueue>();
  let waiting = 0;

  const queueOf = (client: string): ClientQueue => {
    const known = clients.get(client);
    if (known !== undefined) return known;
    const added = { queue: new PQueue({ concurrency: Math.max(1, concurrency - 1) }), waiting: 0 };
    clients.set(client, added);
    return added;
  };

  /** Leaves the queue as soon as the signal is aborted. */
  const runQueued = async <Result>(
    client: ClientQueue,
    signal: AbortSignal,
    query: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> => {
    // Not the signal itself: a running query keeps its slot until it has ended.
    const leaving = new AbortController();
    let isWaiting = true;
    const stopWaiting = () => {
      if (!isWaiting) return;
      isWaiting = false;
      client.waiting -= 1;
      waiting -= 1;
      signal.removeEventListener('abort', leave);
    };
    const leave = () => {
      stopWaiting();
      const isLate = signal.reason instanceof QueryTimeoutError;
      leaving.abort(isLate ? new QueueFullError('no slot became free in time') : signal.reason);
    };
    signal.addEventListener('abort', leave, { once: true });
    client.waiting += 1;
    waiting += 1;
    const run = () => {
      stopWaiting();
      return query(signal);
    };
    const queued = { signal: leaving.signal };
    return client.queue.add(() => common.add(run, queued), queued);
  };

  return {
    async run(client, signal, query) {
      signal?.throwIfAborted();
      const own = queueOf(client);
      const mustWait = common.pending >= concurrency || own.queue.pending >= own.queue.concurrency;
      if (mustWait && (waiting >= queueLimit || own.waiting >= queueLimitPerClient)) {
        throw new QueueFullError('too many queries are in the queue');
      }
      const deadline = new AbortController();
      const timer = setTimeout(
        () => deadline.abort(new QueryTimeoutError(`no result in ${timeoutMs} ms`)),
        timeoutMs,
      );
      const either =
        signal === undefined ? deadline.signal : AbortSignal.any([signal, deadline.signal]);
      return runQueued(own, either, query).finally(() => {
        clearTimeout(timer);
        if (own.queue.size + own.queue.pending === 0) clients.delete(client);
      });
    },
    state: () => ({ running: common.pending, waiting }),
    async close() {
      await Promise.all([...clients.values()].map(({ queue }) => queue.onIdle()));
    },
  };
}
