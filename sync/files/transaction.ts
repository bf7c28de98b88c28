import type { DuckDBConnection } from '@duckdb/node-api';

export async function inTransaction(
  connection: DuckDBConnection,
  work: () => Promise<void>,
): Promise<void> {
  await connection.run('begin');
  try {
    await work();
    await connection.run('commit');
  } catch (error) {
    // A failed commit has rolled back already: a second ROLLBACK fails.
    await connection.run('rollback').catch(() => {});
    throw error;
  }
}
