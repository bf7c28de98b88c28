import { setTimeout as sleep } from 'node:timers/promises';
import { ClickHouseError } from '@clickhouse/client';
import type { DuckDBConnection } from '@duckdb/node-api';
import { describe, expect } from 'vitest';
import { createInstance } from '../../src/duckdb/connection.ts';
import { serializeError } from '../../src/process/error-text.ts';
import { everyOrganization } from '../../src/purchase-store/ticks/shard.ts';
import { describeFailure } from '../../sync/describe-failure.ts';
import { readWorkerState } from '../../sync/status/worker-status.ts';
import { isolatedTest, test } from '../support/fixtures.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { addPurchase } from '../support/shop.ts';

/** A value that no log, status or error may show. */
const secret = '7310501.00';

const it = test.extend(
  'duckdb',
  { scope: 'file' },
  async ({ directory: spillDirectory }, { onCleanup }) => {
    const instance = await createInstance({ threads: 1, memoryLimit: '256MiB', spillDirectory });
    const connection = await instance.connect();
    onCleanup(() => {
      connection.closeSync();
      instance.closeSync();
    });
    return connection;
  },
);

describe('an error that quotes a value of a row', () => {
  const caught = async (work: () => unknown): Promise<unknown> => {
    try {
      await work();
    } catch (error) {
      return error;
    }
    throw new Error('nothing was thrown');
  };
  type Stores = { readonly duckdb: DuckDBConnection; readonly database: TestDatabase };
  const inDuckDB =
    (statement: string) =>
    ({ duckdb }: Stores) =>
      caught(() => duckdb.run(statement));
  const inPostgres =
    (statement: string) =>
    ({ database }: Stores) =>
      caught(() => database.pool.query(statement));

  const failures: [string, (stores: Stores) => Promise<unknown>][] = [
    ['BigInt', () => caught(() => BigInt(secret))],
    ['JSON', () => caught(() => JSON.parse(`x${secret}`))],
    ['Buffer', () => caught(() => Buffer.from(7310501n as unknown as string))],
    ['a DuckDB conversion', inDuckDB(`select cast('x${secret}' as bigint)`)],
    ['a DuckDB cast out of range', inDuckDB('select cast(7310501 as tinyint)')],
    [
      'a DuckDB constraint',
      inDuckDB('create table t (n bigint primary key); insert into t values (7310501), (7310501)'),
    ],
    ['a DuckDB error that a statement raises', inDuckDB(`select error('${secret}')`)],
    ['a Postgres conversion', inPostgres(`select 'x${secret}'::bigint`)],
    ['a Postgres exception', inPostgres(`do $$ begin raise 'x${secret}'; end $$`)],
    [
      'the detail of a Postgres constraint',
      inPostgres(
        `create table t (n bigint primary key); insert into t values (7310501), (7310501)`,
      ),
    ],
    [
      'a ClickHouse conversion',
      () => caught(() => Promise.reject(new ClickHouseError({ message: secret, code: '6' }))),
    ],
    [
      'the context of a Postgres COPY',
      inPostgres(`
        create table u (n text); insert into u values ('x${secret}');
        do $$ begin execute 'insert into purchases (organization_id) select n::bigint from u'; end $$`),
    ],
  ];

  it.for(failures)(
    'is described and logged without the value: %s',
    async ([_name, fail], { duckdb, database }) => {
      const error = await fail({ duckdb, database });
      const { message, detail, where } = error as {
        message: string;
        detail: string;
        where: string;
      };
      expect(`${message} ${detail} ${where}`).toMatch(/7310501/);
      expect(JSON.stringify(describeFailure(error))).not.toMatch(/7310501/);
      expect(JSON.stringify(serializeError(error))).not.toMatch(/7310501/);
      expect(JSON.stringify(serializeError(new Error('outer', { cause: error })))).not.toMatch(
        /7310501/,
      );
    },
  );

  it('is logged with message, code and stack if it comes from the system', () => {
    const error = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    expect(serializeError(error)).toMatchObject({
      type: 'Error',
      message: 'connect ECONNREFUSED',
      code: 'ECONNREFUSED',
      stack: expect.stringMatching(/^Error: connect ECONNREFUSED\n {4}at .*quoted-values/),
    });
  });

  isolatedTest.for(['a load', 'a change'])(
    'is not repeated by the worker if %s reads a column of another type',
    { tags: ['slow'] },
    async (step, { database, directory, shop, customerId, program }) => {
      const add = () =>
        addPurchase(database.pool, shop.organizationId, {
          customer_id: customerId,
          purchase_value_in_cents: '7310501',
        });
      const worker = program('sync/main.ts', ['run'], { LOG_LEVEL: 'trace' });
      await worker.printed(/"built"/);
      if (step === 'a change') await add();
      await database.pool.query(
        'alter table purchases alter column purchase_value_in_cents type numeric(12,2)',
      );
      if (step === 'a load') await database.pool.query('truncate purchases');
      await add();
      await worker.printed(/purchases.purchase_value_in_cents is numeric and should be bigint/);
      while (readWorkerState(directory, everyOrganization)?.failure == null) await sleep(20);
      expect(worker.output()).not.toMatch(/7310501/);
      const state = readWorkerState(directory, everyOrganization);
      expect(JSON.stringify(state)).toMatch(/should be bigint/);
      expect(JSON.stringify(state)).not.toMatch(/7310501/);
    },
  );
});
