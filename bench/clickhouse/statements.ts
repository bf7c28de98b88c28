import {
  DuckDBConnection,
  type DuckDBMaterializedResult,
  type DuckDBPreparedStatement,
} from '@duckdb/node-api';
import { rowsOf } from '../../src/duckdb/connection.ts';

const readAll = (result: DuckDBMaterializedResult) => [...rowsOf(result)];

/**
 * Records the statements that an engine sends to DuckDB during `query`. Returns a function that
 * runs them again, one after the other, without the engine.
 */
export async function statementsOf(query: () => Promise<unknown>): Promise<() => Promise<void>> {
  const { prototype } = DuckDBConnection;
  const { run, prepare } = prototype;
  const recorded: (() => Promise<unknown>)[] = [];
  prototype.run = function (...given) {
    recorded.push(() => run.apply(this, given).then(readAll));
    return run.apply(this, given);
  };
  prototype.prepare = async function (text) {
    const prepared = await prepare.call(this, text);
    const bind = prepared.bind.bind(prepared);
    prepared.bind = (...values: Parameters<DuckDBPreparedStatement['bind']>) => {
      recorded.push(async () => {
        const again = await prepare.call(this, text);
        again.bind(...values);
        await again
          .run()
          .then(readAll)
          .finally(() => again.destroySync());
      });
      bind(...values);
    };
    return prepared;
  };
  try {
    await query();
  } finally {
    Object.assign(prototype, { run, prepare });
  }
  return async () => {
    for (const runAgain of recorded) await runAgain();
  };
}
