import sql from 'sql-template-tag';
import { expect, it } from 'vitest';
import { statementsOf } from '../bench/clickhouse/statements.ts';
import { createInstance, queryRows, runStatement } from '../src/duckdb/connection.ts';
import { temporaryDirectory } from './support/temporary-directory.ts';

it('the recorded statements of a query run again with their values', async () => {
  const folder = await temporaryDirectory();
  const instance = await createInstance({
    threads: 1,
    memoryLimit: '128MiB',
    spillDirectory: folder.path,
  });
  const connection = await instance.connect();
  await runStatement(connection, sql`create table rows (number bigint)`);
  const numbers = async () =>
    (await queryRows(connection, sql`select number from rows order by number`)).flat();

  const runAgain = await statementsOf(async () => {
    await runStatement(connection, sql`insert into rows values (${7n})`);
    await runStatement(connection, sql`insert into rows values (1)`);
  });
  expect(await numbers()).toEqual([1n, 7n]);
  await runAgain();
  await runAgain();
  expect(await numbers()).toEqual([1n, 1n, 1n, 7n, 7n, 7n]);

  connection.closeSync();
  instance.closeSync();
  await folder.remove();
});
