import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { connectKeepingStatements, type KeepingConnection } from '../../../duckdb/connection.ts';
import { defaultShortcuts, type Shortcuts } from '../../../duckdb/shortcuts.ts';
import {
  createQueryQueue,
  type QueryClient,
  type QueryQueue,
  type QueryQueueOptions,
} from '../../../queue/query-queue.ts';
import { interruptible } from './interruption.ts';

/** One or several SQL statements, on a connection that no other query uses meanwhile. */
type Query<Result> = (connection: DuckDBConnection) => Promise<Result>;

/**
 * The queue of queries over DuckDB. A running query is interrupted. Each occupies a thread of
 * libuv's pool (UV_THREADPOOL_SIZE, 4 by default) until it is done, and files, DNS and DuckDB's
 * own clean-up need that pool too.
 */
export type QueryPool = Pick<QueryQueue, 'state' | 'close'> & {
  run<Result>(
    client: QueryClient,
    signal: AbortSignal | undefined,
    query: Query<Result>,
  ): Promise<Result>;
};

export function createQueryPool(
  instance: DuckDBInstance,
  options: QueryQueueOptions,
  { maxKeptStatements }: Shortcuts = defaultShortcuts,
): QueryPool {
  const queue = createQueryQueue(options);
  const idle: KeepingConnection[] = [];
  return {
    run: (client, signal, query) =>
      queue.run(client, signal, async (either) => {
        const slot = idle.pop() ?? (await connectKeepingStatements(instance, maxKeptStatements));
        const { connection } = slot;
        try {
          return await interruptible(either, connection, () => query(connection));
        } finally {
          idle.push(slot);
        }
      }),
    state: queue.state,
    async close() {
      await queue.close();
      for (const { close } of idle.splice(0)) close();
    },
  };
}
