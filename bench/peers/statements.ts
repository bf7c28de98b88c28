import {
  DuckDBConnection,
  type DuckDBMaterializedResult,
  type DuckDBPreparedStatement,
} from '@duckdb/node-api';

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
    noted.push(() => read(run.apply(this, given)));
    return run.apply(this, given);
  };
  prototype.prepare = async function (text) {
    const prepared = await prepare.call(this, text);
    const bind = prepared.bind.bind(prepared);
    prepared.bind = (...values: Parameters<DuckDBPreparedStatement['bind']>) => {
      noted.push(async () => {
        const again = await prepare.call(this, text);
        again.bind(...values);
        await read(again.run()).finally(() => again.destroySync());
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

/** As an engine does, but for what it makes of the chunks. */
async function read(running: Promise<DuckDBMaterializedResult>): Promise<void> {
  const result = await running;
  for (let chunk = 0; chunk < result.chunkCount; chunk += 1) result.getChunk(chunk).getRows();
}
