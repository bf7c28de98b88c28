import type { DuckDBConnection } from '@duckdb/node-api';

export async function inTransaction<Result>(
  connection: DuckDBConnection,
  work: () => Promise<Result>,
): Promise<Result> {
  await connection.run('begin');
  try {
    const result = await work();
    await connection.run('commit');
    return result;
  } catch (error) {
    // A failed commit has rolled back already: a second ROLLBACK fails.
    await connection.run('rollback').catch(() => {});
    throw error;
  }
}
