import sql from 'sql-template-tag';
import { expect, it } from 'vitest';
import { statementsOf } from '../bench/clickhouse/statements.ts';
import { createInstance, queryRows, runStatement } from '../src/duckdb/connection.ts';
import { temporaryDirectory } from './support/temporary-directory.ts';

it('the statements that an answer takes can be put again, with their values', async () => {
  const folder = await temporaryDirectory();
  const instance = await createInstance({
    threads: 1,
    memoryLimit: '128MiB',
    spillDirectory: folder.path,
  });
  const connection = await instance.connect();
  await runStatement(connection, sql`create table asked (number bigint)`);
  const numbers = async () =>
    (await queryRows(connection, sql`select number from asked order by number`)).flat();

  const again = await statementsOf(async () => {
    await runStatement(connection, sql`insert into asked values (${7n})`);
    await runStatement(connection, sql`insert into asked values (1)`);
  });
  expect(await numbers()).toEqual([1n, 7n]);
  await again();
  await again();
  expect(await numbers()).toEqual([1n, 1n, 1n, 7n, 7n, 7n]);

  connection.closeSync();
  instance.closeSync();
  await folder.remove();
});
