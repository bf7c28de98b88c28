import { expect, onTestFinished } from 'vitest';
import { withConnection } from '../../src/postgres/connection/pool.ts';
import { restoreTriggers } from '../../src/postgres/mapping/triggers.ts';
import { it } from './small-shop.ts';

/** Types whose text depends on settings, and a value of each. */
const values: Readonly<Record<string, string>> = {
  timestamp: `'2026-03-04 05:06:07'`,
  timestamptz: `'2026-03-04 05:06:07.5+00'`,
  date: `'2026-03-04'`,
  interval: `'-1 day -2:03:04'`,
  'double precision': `0.1::float8 + 0.2::float8`,
  bytea: `'\\x00ff5c'`,
  money: '1234.56',
  regclass: `'store.orders'`,
};

const writerSettings = `
  set DateStyle = 'SQL, DMY'; set TimeZone = 'America/Sao_Paulo'; set IntervalStyle = 'sql_standard';
  set extra_float_digits = -15; set bytea_output = 'escape'; set search_path = store;
  set quote_all_identifiers = on`;

it('logs keys and rows as the worker reads them, whatever settings the writer has', async ({
  start,
  query,
  database,
}) => {
  await start();
  onTestFinished(async () => void (await query('drop table store.typed, store.logged')));
  const columns = Object.keys(values).map((type, index) => `c${index} ${type}`);
  const texts = columns.map((_, index) => `c${index}::text`).join(', ');
  await query(`
    create table store.typed (${columns.join(', ')}); create table store.logged (${columns.join(', ')});
    insert into mapping_sources values
      ${columns.map((_, index) => `('mapped_purchases', 'store.typed', 'c${index}')`).join(', ')},
      ('mapped_purchases', 'store.logged', 'select unnest(array[${texts}])')`);
  await withConnection(database.pool, async (connection) => {
    await restoreTriggers(connection, { lockTimeoutMs: 5_000, areOthersDropped: false });
    const row = `values (${Object.values(values).join(', ')})`;
    await connection.query(`begin; ${writerSettings.replaceAll('set ', 'set local ')};
      insert into store.typed ${row}; insert into store.logged ${row};
      update store.typed set c0 = c0; commit`);
  });
  const [{ expected }] = await query(`select array[${texts}] as expected from store.typed`);
  const logged = await query('select distinct key from mapping_changes where source is null');
  expect(logged.map(({ key }: { key: string }) => key).sort()).toEqual([...expected].sort());
  const found = await query(`select found.key from mapping_changes,
    "find_keys_of store.logged"('mapped_purchases', jsonb_build_array(row)) as found (key) where source is not null`);
  expect(found.map(({ key }: { key: string }) => key).sort()).toEqual([...expected].sort());
});
