import type { Connection } from '../connection/pool.ts';
import { tableOfTakenNumber } from './contention.ts';

/** Numbers that are drawn at once to find the end of those that other writers use. */
const drawnAtOnce = 10_000;
/** Then another writer has used numbers since the snapshot of the transaction. */
const maxAttempts = 3;

/**
 * Runs statements that insert rows under numbers of the identity columns. Writers may use ids of their
 * own: if one has the drawn number, the statements are repeated with later numbers. Without an attempt left,
 * the error is a conflict (contention.ts).
 */
export async function drawingNumbers<Result>(
  connection: Connection,
  work: () => Promise<Result>,
): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    await connection.query('savepoint numbers');
    try {
      const result = await work();
      await connection.query('release savepoint numbers');
      return result;
    } catch (error) {
      await connection.query('rollback to savepoint numbers').catch(() => {});
      const table = tableOfTakenNumber(error);
      if (table === null || attempt === maxAttempts) throw error;
      await skipTakenNumbers(connection, table);
    }
  }
}

async function skipTakenNumbers(
  connection: Connection,
  table: 'customers' | 'purchases',
): Promise<void> {
  let isTaken = true;
  while (isTaken) {
    // A count, because `exists` would draw no number after the first one that is taken.
    const { rows } = await connection.query<{ isTaken: boolean }>(
      `with drawn as materialized (
         select nextval((select pg_get_serial_sequence($1, 'id')::regclass)) as id from generate_series(1, $2)
       )
       select count(*) > 0 as "isTaken" from drawn
         cross join lateral (select from ${table} as stored where stored.id = drawn.id limit 1) as taken`,
      [table, drawnAtOnce],
    );
    isTaken = rows[0]?.isTaken ?? false;
  }
}
