import { DuckDBConnection } from '@duckdb/node-api';

// The API, whose DuckDB instance becomes invalid after some statements.
const statementsOfInstance = 500;
let statements = 0;

const { run } = DuckDBConnection.prototype;
DuckDBConnection.prototype.run = function runOrFail(...[statement, ...rest]) {
  statements += 1;
  if (statements % statementsOfInstance === 0) {
    console.log('an instance becomes invalid');
    throw new Error('FATAL Error: invalidated because of a previous fatal error');
  }
  if (statement.startsWith('detach')) console.log('files are closed');
  return run.call(this, statement, ...rest);
};

await import('../../../src/commands/api.ts');
