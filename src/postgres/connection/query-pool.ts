import {
  createQueryQueue,
  type QueryClient,
  type QueryQueue,
  type QueryQueueOptions,
} from '../../queue/query-queue.ts';
import { type Connection, type Database, withConnection } from './pool.ts';

/**
 * The queue of queries over the connections of a pool, so that one client cannot occupy all. An aborted
 * signal cancels the running statement.
 */
export type PostgresQueryPool = Pick<QueryQueue, 'state' | 'close'> & {
  /** Runs statements on a connection that no other query uses meanwhile. */
  run<Result>(
    client: QueryClient,
    signal: AbortSignal | undefined,
    query: (connection: Connection) => Promise<Result>,
  ): Promise<Result>;
};

/** The pool alone bounds queries. */
const unbounded: QueryQueueOptions = {
  concurrency: Number.POSITIVE_INFINITY,
  queueLimit: 0,
  queueLimitPerClient: 0,
  // The maximum of a timer.
  timeoutMs: 2 ** 31 - 1,
};

/** The caller owns the pool. */
export function createPostgresQueryPool(
  database: Database,
  options: QueryQueueOptions = unbounded,
): PostgresQueryPool {
  const queue = createQueryQueue(options);
  return {
    run: (client, signal, query) =>
      queue.run(client, signal, (either) => withConnection(database, query, either)),
    state: queue.state,
    close: queue.close,
  };
}
