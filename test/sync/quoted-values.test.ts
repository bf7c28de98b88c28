import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createInstance } from '../../src/duckdb/connection.ts';
import { serializeError } from '../../src/error-text.ts';
import { organizationDirectory } from '../../src/purchase-store/published-generation.ts';
import { describeFailure } from '../../sync/failure.ts';
import { readReport } from '../../sync/status/report.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { runProgram } from '../support/program.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const secret = '7310501.00';

describe('an error that quotes a value of a row', { timeout: 120_000 }, () => {
  let database: TestDatabase;
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  beforeEach(async () => {
    database = await createTestDatabase();
    directory = await temporaryDirectory();
  });
  afterEach(async () => {
    await database.drop();
    await directory.remove();
  });

  const caught = async (work: () => unknown): Promise<unknown> => {
    try {
      await work();
    } catch (error) {
      return error;
    }
    throw new Error('nothing was thrown');
  };
  const inDuckDB = async (statement: string): Promise<unknown> => {
    const instance = await createInstance({
      threads: 1,
      memoryLimit: '256MiB',
      spillDirectory: directory.path,
    });
    const connection = await instance.connect();
    try {
      return await caught(() => connection.run(statement));
    } finally {
      connection.closeSync();
      instance.closeSync();
    }
  };
  const inPostgres = (statement: string) => caught(() => database.pool.query(statement));

  const failures: [string, () => Promise<unknown>][] = [
    ['BigInt', () => caught(() => BigInt(secret))],
    ['JSON', () => caught(() => JSON.parse(`x${secret}`))],
    ['Buffer', () => caught(() => Buffer.from(7310501n as unknown as string))],
    ['a DuckDB conversion', () => inDuckDB(`select cast('x${secret}' as bigint)`)],
    ['a DuckDB cast out of range', () => inDuckDB('select cast(7310501 as tinyint)')],
    [
      'a DuckDB constraint',
      () =>
        inDuckDB(
          'create table t (n bigint primary key); insert into t values (7310501), (7310501)',
        ),
    ],
    ['a DuckDB error that a statement raises', () => inDuckDB(`select error('${secret}')`)],
    ['a Postgres conversion', () => inPostgres(`select 'x${secret}'::bigint`)],
    ['a Postgres exception', () => inPostgres(`do $$ begin raise 'x${secret}'; end $$`)],
    [
      'the detail of a Postgres constraint',
      () =>
        inPostgres(
          `create table t (n bigint primary key); insert into t values (7310501), (7310501)`,
        ),
    ],
    [
      'the context of a Postgres COPY',
      () =>
        inPostgres(`
        create table u (n text); insert into u values ('x${secret}');
        do $$ begin execute 'insert into purchases (organization_id) select n::bigint from u'; end $$`),
    ],
  ];

  it.each(failures)('is described and logged without it: %s', async (_name, fail) => {
    const error = await fail();
    const { message, detail, where } = error as { message: string; detail: string; where: string };
    expect(`${message} ${detail} ${where}`).toMatch(/7310501/);
    expect(JSON.stringify(describeFailure(error))).not.toMatch(/7310501/);
    expect(JSON.stringify(serializeError(error))).not.toMatch(/7310501/);
    expect(JSON.stringify(serializeError(new Error('outer', { cause: error })))).not.toMatch(
      /7310501/,
    );
  });

  it('keeps what is logged of errors that are about the program', () => {
    const error = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    expect(serializeError(error)).toMatchObject({
      type: 'Error',
      message: 'connect ECONNREFUSED',
      code: 'ECONNREFUSED',
      stack: expect.stringMatching(/^Error: connect ECONNREFUSED\n {4}at .*quoted-values/),
    });
  });

  it.each(['in a load', 'in a change'])(
    'is not repeated by the worker where a column has another type: %s',
    async (when) => {
      const organization = await addOrganization(database.pool);
      const customer_id = await addCustomer(database.pool, organization);
      const alter = () =>
        database.pool.query(
          'alter table purchases alter column purchase_value_in_cents type numeric(12,2)',
        );
      const add = () =>
        addPurchase(database.pool, organization, {
          customer_id,
          purchase_value_in_cents: '7310501',
        });
      const worker = runProgram('sync/main.ts', ['run'], {
        DATABASE_URL: database.url,
        DATA_DIR: directory.path,
        LOG_LEVEL: 'trace',
      });
      try {
        await worker.printed(/"published"/);
        if (when === 'in a load') {
          await alter();
          await database.pool.query('truncate purchases');
          await add();
        } else {
          await add();
          await alter();
          await add();
        }
        await worker.printed(/purchases.purchase_value_in_cents is numeric and should be bigint/);
        expect(worker.output()).not.toMatch(/7310501/);
        const report = readReport(organizationDirectory(directory.path, organization));
        expect(JSON.stringify(report)).not.toMatch(/7310501/);
      } finally {
        await worker.end('SIGKILL');
      }
    },
  );
});
