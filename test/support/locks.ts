import type { Database } from '../../src/postgres/connection/pool.ts';

/** Locks tables until the returned function is called. */
export async function lockTables(
  database: Database,
  tables: string,
  mode = 'access exclusive',
): Promise<() => Promise<void>> {
  const connection = await database.connect();
  await connection.query(`begin; lock table ${tables} in ${mode} mode`);
  return async () => {
    await connection.query('rollback');
    connection.release();
  };
}
