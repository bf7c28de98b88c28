import {
  type Connection,
  type Database,
  inTransaction,
  withConnection,
} from '../connection/pool.ts';
import { isContention } from './contention.ts';

type TransactionOptions = {
  readonly signal?: AbortSignal | undefined;
  readonly lockTimeoutMs?: number;
  readonly nowait?: boolean;
  /** Whether others that say so may map at the same time. They write different rows, and delete none. */
  readonly isShared?: boolean;
};

/**
 * Less than Postgres's `deadlock_timeout`, after which it cancels a statement of a deadlock: this transaction
 * gives up before a transaction of the shop is cancelled that locks the same tables in another order.
 */
const viewLockTimeoutMs = 500;

/**
 * Runs `work` in one snapshot, while no other process maps. The locks precede the snapshot: one from
 * before the end of TRUNCATE sees an empty table. They wait for at most `lockTimeoutMs`; with `nowait`,
 * the call rejects at once with SQLSTATE 55P03 if another process maps.
 */
export async function inMappingTransaction<Result>(
  database: Database,
  work: (connection: Connection) => Promise<Result>,
  { signal, lockTimeoutMs = 5_000, nowait = false, isShared = false }: TransactionOptions = {},
): Promise<Result> {
  const lastsUntil = performance.now() + lockTimeoutMs;
  let areViewsLocked = true;
  const transaction = async (connection: Connection): Promise<Result> => {
    await connection.query(
      `set local lock_timeout = ${lockTimeoutMs};
       lock table mapping_held_deletions in ${isShared ? 'share' : 'share update exclusive'} mode ${nowait ? 'nowait' : ''}`,
    );
    areViewsLocked = false;
    await connection.query(
      `set local lock_timeout = ${viewLockTimeoutMs};
       lock table mapped_customers, mapped_purchases in access share mode;
       set local lock_timeout = ${lockTimeoutMs}`,
    );
    areViewsLocked = true;
    return work(connection);
  };
  for (;;) {
    try {
      return await withConnection(
        database,
        (connection) =>
          inTransaction(
            connection,
            () => transaction(connection),
            'isolation level repeatable read',
          ),
        signal,
      );
    } catch (error) {
      const isRepeated = !areViewsLocked && isContention(error) && !nowait;
      if (!isRepeated || performance.now() > lastsUntil) throw error;
      areViewsLocked = true;
    }
  }
}
