import { DuckDBConnection, type DuckDBPreparedStatement } from '@duckdb/node-api';
import { rowsOf } from '../../src/duckdb/connection.ts';

/**
 * Notes which statements an engine puts to DuckDB while it answers, and gives what puts
 * the same ones again, one after the other and without the engine: nothing, where it
 * knows the answer.
 */
export async function statementsOf(answer: () => Promise<unknown>): Promise<() => Promise<void>> {
  const { prototype } = DuckDBConnection;
  const { run, prepare } = prototype;
  const noted: (() => Promise<unknown>)[] = [];
  prototype.run = function (...given) {
    noted.push(() => run.apply(this, given).then(rowsOf));
    return run.apply(this, given);
  };
  prototype.prepare = async function (text) {
    const prepared = await prepare.call(this, text);
    const bind = prepared.bind.bind(prepared);
    prepared.bind = (...values: Parameters<DuckDBPreparedStatement['bind']>) => {
      noted.push(async () => {
        const again = await prepare.call(this, text);
        again.bind(...values);
        await again
          .run()
          .then(rowsOf)
          .finally(() => again.destroySync());
      });
      bind(...values);
    };
    return prepared;
  };
  try {
    await answer();
  } finally {
    Object.assign(prototype, { run, prepare });
  }
  return async () => {
    for (const again of noted) await again();
  };
}
