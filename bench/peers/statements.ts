import { DuckDBConnection } from '@duckdb/node-api';

/**
 * Notes which statements an engine puts to DuckDB while it answers, and gives what puts
 * the same ones again, one after the other and without the engine: nothing, where it
 * knows the answer.
 */
export async function statementsOf(answer: () => Promise<unknown>): Promise<() => Promise<void>> {
  const { prototype } = DuckDBConnection;
  const put = prototype.runAndReadAll;
  const noted: (() => Promise<unknown>)[] = [];
  prototype.runAndReadAll = function (...given) {
    const again = () => put.apply(this, given);
    noted.push(again);
    return again();
  };
  try {
    await answer();
  } finally {
    prototype.runAndReadAll = put;
  }
  return async () => {
    for (const again of noted) await again();
  };
}
