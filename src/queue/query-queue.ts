import { QueryTimeoutError, QueueFullError } from '../domain/purchase-engine.ts';
import { createTurnQueue, type TurnQueue } from './turn-queue.ts';

/** The client of a query. Queries without a name share the turns of one client of the organization. */
export type QueryClient = { readonly organizationId: bigint; readonly name?: string | undefined };

/**
 * Runs a bounded number of queries at the same time.
 *
 * Each organization has a queue in which its clients take turns. From it, a limited number go to the
 * common queue, in which organizations take turns.
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
  /** Of one organization; by default, all but one. */
  readonly concurrencyPerOrganization?: number;
  /** Queries in the queue, of all clients and of one. Further queries are refused. */
  readonly queueLimit: number;
  /** One organization leaves so many to others as well. */
  readonly queueLimitPerClient: number;
  /** Of a query, including its time in the queue. */
  readonly timeoutMs: number;
};

export function createQueryQueue(options: QueryQueueOptions): QueryQueue {
  const { concurrency, queueLimit, queueLimitPerClient, timeoutMs } = options;
  const concurrencyEach = options.concurrencyPerOrganization ?? organizationSlots(concurrency);
  const queueLimitEach = Math.max(queueLimitPerClient, queueLimit - queueLimitPerClient);
  const common = createTurnQueue(concurrency);
  const organizations = new Map<bigint, TurnQueue>();
  /** An element for each query in a queue. */
  const waiting = new Set<QueryClient>();

  const queueOf = (organizationId: bigint) => {
    const known = organizations.get(organizationId);
    if (known !== undefined) return known;
    const added = createTurnQueue(concurrencyEach);
    added.on('idle', () => organizations.delete(organizationId));
    organizations.set(organizationId, added);
    return added;
  };

  const isFull = ({ organizationId, name = '' }: QueryClient): boolean => {
    const ofOrganization = [...waiting].filter((each) => each.organizationId === organizationId);
    const own = ofOrganization.filter((each) => each.name === name);
    return (
      own.length >= queueLimitPerClient ||
      ofOrganization.length >= queueLimitEach ||
      waiting.size >= queueLimit
    );
  };

  /** Leaves the queues as soon as the signal is aborted. A running query keeps its slot until it has ended. */
  const runQueued = async <Result>(
    { organizationId, name = '' }: QueryClient,
    signal: AbortSignal,
    query: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> => {
    const leaving = new AbortController();
    const place = { organizationId, name };
    const stopWaiting = () => {
      waiting.delete(place);
      signal.removeEventListener('abort', leave);
    };
    const leave = () => {
      stopWaiting();
      const isLate = signal.reason instanceof QueryTimeoutError;
      leaving.abort(isLate ? new QueueFullError('no slot became free in time') : signal.reason);
    };
    const run = () => {
      stopWaiting();
      return query(signal);
    };
    signal.addEventListener('abort', leave, { once: true });
    waiting.add(place);
    const takeTurn = (turn: string) => ({ turn, signal: leaving.signal });
    return queueOf(organizationId).add(
      () => common.add(run, takeTurn(`${organizationId}`)),
      takeTurn(name),
    );
  };

  return {
    async run(client, signal, query) {
      signal?.throwIfAborted();
      const own = queueOf(client.organizationId);
      const mustWait = common.pending >= concurrency || own.pending >= own.concurrency;
      if (mustWait && isFull(client)) {
        throw new QueueFullError('too many queries are in the queue');
      }
      const deadline = new AbortController();
      const timer = setTimeout(
        () => deadline.abort(new QueryTimeoutError(`no result in ${timeoutMs} ms`)),
        timeoutMs,
      );
      const either =
        signal === undefined ? deadline.signal : AbortSignal.any([signal, deadline.signal]);
      return runQueued(client, either, query).finally(() => clearTimeout(timer));
    },
    state: () => ({ running: common.pending, waiting: waiting.size }),
    async close() {
      await Promise.all([...organizations.values()].map((queue) => queue.onIdle()));
    },
  };
}

/** The slots of `total` that one organization may occupy. If there are two or more, it leaves one to others. */
export const organizationSlots = (total: number): number => Math.max(1, total - 1);
