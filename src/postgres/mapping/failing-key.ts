import pg from 'pg';
import type { Connection } from '../connection/pool.ts';
import { failureText } from './failure-text.ts';
import { readSourceTables } from './source-tables.ts';
import { keysFrom, mappedKey } from './trigger-function.ts';

/**
 * Names a key of mapping_sources that Postgres cannot parse, as after its column was renamed, with the reason.
 * Null if there is none. Without the right to use a schema, its keys are not known.
 */
export async function describeFailingKey(connection: Connection): Promise<string | null> {
  const tables = await readSourceTables(connection);
  for (const { name, keys } of tables.filter((table) => table.name === table.root)) {
    for (const { view, key } of keys) {
      const reason = await parseKey(connection, name, key);
      if (reason === null) continue;
      return (
        `The key ${key} of ${name} for ${view} fails: ${reason}. So all rows are compared after each write of ` +
        'the table, and the instant of the data waits. Correct the key in mapping_sources, and run ' +
        '`npm run mapping -- apply`.'
      );
    }
  }
  return null;
}

/** The reason why a key cannot be parsed. PREPARE needs no right to read the table. */
async function parseKey(
  connection: Connection,
  table: string,
  key: string,
): Promise<string | null> {
  await connection.query('savepoint key');
  try {
    await connection.query(
      `prepare mapped_key as select ${mappedKey} ${keysFrom(key, table, table)}; deallocate mapped_key`,
    );
    await connection.query('release savepoint key');
    return null;
  } catch (error) {
    await connection.query('rollback to savepoint key');
    const isOfKey = error instanceof pg.DatabaseError && /^42(?!501)/.test(error.code ?? '');
    if (!isOfKey) return null;
    return failureText(error);
  }
}
