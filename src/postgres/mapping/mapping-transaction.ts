import {
  type Connection,
  type Database,
  inTransaction,
  withConnection,
} from '../connection/pool.ts';

type TransactionOptions = {
  readonly signal?: AbortSignal | undefined;
  readonly lockTimeoutMs?: number;
  readonly nowait?: boolean;
  /** Whether others that say so may map at the same time. They write different rows, and delete none. */
  readonly isShared?: boolean;
};

/**
 * Runs `work` in one snapshot, while no other process maps. The locks precede the snapshot: one from
 * before the end of TRUNCATE sees an empty table. They wait for at most `lockTimeoutMs`; with `nowait`,
 * the call rejects at once with SQLSTATE 55P03 if another process maps.
 */
export const inMappingTransaction = <Result>(
  database: Database,
  work: (connection: Connection) => Promise<Result>,
  { signal, lockTimeoutMs = 5_000, nowait = false, isShared = false }: TransactionOptions = {},
): Promise<Result> =>
  withConnection(
    database,
    (connection) =>
      inTransaction(
        connection,
        async () => {
          await connection.query(
            `set local lock_timeout = ${lockTimeoutMs};
             lock table mapping_held_deletions in ${isShared ? 'share' : 'share update exclusive'} mode ${nowait ? 'nowait' : ''};
             lock table mapped_customers, mapped_purchases in access share mode`,
          );
          return work(connection);
        },
        'isolation level repeatable read',
      ),
    signal,
  );
