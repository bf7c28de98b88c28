import { describe, expect } from 'vitest';
import { createInstance, queryRows } from '../../src/duckdb/connection.ts';
import { createBaseLayout, supersededColumns } from '../../src/purchase-store/layout.ts';
import { stagedRowsOfBase } from '../../sync/apply/superseded-rows.ts';
import { isolatedTest } from '../support/fixtures.ts';

const catalogs = { base: 'base', delta: 'delta' };
/** Every id that is no multiple of 7, with gaps of more than a vector. */
const idsOfBase = `
  select block * 10_000 + offset_in_block as id, id % 100 as customer_id, customer_id as customer_key,
    id % 90 as purchase_value_in_cents, make_timestamp(id) as created_at, created_at as updated_at,
    0 as created_quarter_hour, id::varchar as order_number
  from range(40) as blocks (block), range(500) as offsets (offset_in_block) where id % 7 > 0`;

const it = isolatedTest.extend('connection', async ({ directory }, { onCleanup }) => {
  const options = { threads: 2, memoryLimit: '512MiB', spillDirectory: directory };
  const instance = await createInstance(options);
  onCleanup(() => instance.closeSync());
  const connection = await instance.connect();
  await connection.run(`
    attach ':memory:' as base;
    attach ':memory:' as delta;
    ${createBaseLayout('base')}
    insert into base.purchase by name ${idsOfBase};
    create table delta.change as
    select case when id % 3 = 0 then -1 else 1 end as sign, * from base.purchase where id % 5 = 0;
    create temp table staged (id bigint)`);
  return connection;
});

describe('the rows of the base that staged purchases supersede', () => {
  it.for([
    ['of one purchase', '20001'],
    ['of purchases that are close together', 'range(20001, 20100)'],
    ['of purchases that are far apart', 'range(1, 400000, 9999)'],
    ['of as many purchases as a statement lists', 'range(1, 50000, 100)'],
    ['of more purchases than a statement lists', 'range(1, 400000, 13)'],
    ['of all purchases, and of ids that the base lacks', 'range(-1000, 500000)'],
  ])('are those %s', async ([, ids], { connection }) => {
    const source = ids?.startsWith('range') ? ids : `range(${ids}, ${ids} + 1)`;
    await connection.run(`insert into staged from ${source}`);
    const rows = await stagedRowsOfBase(connection, catalogs);
    expect(rows).not.toBeNull();
    const found = await connection.runAndReadAll(rows?.text ?? '', rows?.values as bigint[]);
    const expected = await connection.runAndReadAll(`
      select ${supersededColumns} from base.purchase
      where id in (from staged) and id not in (select id from delta.change where sign < 0)`);
    expect(expected.currentRowCount).toBeGreaterThan(0);
    expect(sorted(found.getRows())).toEqual(sorted(expected.getRows()));
  });

  it('are none if the delta supersedes all of them', async ({ connection }) => {
    await connection.run('insert into staged select id from delta.change where sign < 0');
    expect(await stagedRowsOfBase(connection, catalogs)).toBeNull();
  });

  it('are found by constants, for which DuckDB skips row groups', async ({ connection }) => {
    await connection.run('insert into staged values (20001), (390001)');
    const rows = await stagedRowsOfBase(connection, catalogs);
    expect(rows?.values.toSorted()).toEqual([20001n, 390001n]);
    expect(await queryRows(connection, rows as NonNullable<typeof rows>)).toHaveLength(2);
  });
});

const sorted = (rows: readonly (readonly unknown[])[]) => rows.map(String).sort();
