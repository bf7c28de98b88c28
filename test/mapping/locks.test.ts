import { expect, onTestFinished } from 'vitest';
import { withConnection } from '../../src/postgres/connection/pool.ts';
import { createObjects } from '../../src/postgres/mapping/apply.ts';
import { readMapping } from '../../src/postgres/mapping/mapping-definition.ts';
import { it as smallShop } from './small-shop.ts';

// Locks of the shop's tables. Postgres cancels a statement of a deadlock, which must be none of the shop.

const it = smallShop.extend('session', ({ database }) => async () => {
  const connection = await database.pool.connect();
  onTestFinished(async () => {
    await connection.query('rollback');
    connection.release();
  });
  return (text: string) => connection.query(text);
});

const waiting = `select count(*)::int as sessions from pg_stat_activity
  where datname = current_database() and wait_event_type = 'Lock'`;

it.for([
  [
    'creates',
    'drop trigger map_inserted on store.clients; drop trigger map_inserted on store.orders',
  ],
  ['drops', `delete from mapping_sources`],
])(
  '%s triggers without locking one table while it waits for another',
  async ([, statement], { start, query, session, database }) => {
    await start();
    const [first, second, third] = [await session(), await session(), await session()];
    await query(statement as string);
    await first('begin; insert into store.orders (id) values (1)');
    await second(`begin; insert into store.clients (id) values ('a')`);
    const restored = readMapping(database.pool).then((mapping) =>
      createObjects(database.pool, mapping, new AbortController().signal),
    );
    restored.catch(() => {});
    await expect.poll(() => query(waiting)).toEqual([{ sessions: 1 }]);
    await second('commit');
    // It waits for the table that the other session keeps, and the first one is complete.
    await expect
      .poll(() =>
        query(
          `select tgrelid::regclass::text as name from pg_trigger where tgname = 'map_inserted' order by 1`,
        ),
      )
      .toEqual(
        statement?.startsWith('drop')
          ? [{ name: 'store.clients' }, { name: 'store.emails' }]
          : [{ name: 'store.orders' }],
      );
    await third(`set lock_timeout = '200ms'; insert into store.clients (id) values ('b')`);
    await first('commit');
    await restored;
  },
);

it('creates triggers while other processes create the same', async ({ start, query, database }) => {
  await start();
  const signal = new AbortController().signal;
  const mapping = await readMapping(database.pool);
  for (let round = 0; round < 5; round += 1) {
    await query('drop function "map_rows_of store.orders", "map_rows_of store.clients" cascade');
    await Promise.all(
      Array.from({ length: 4 }, () => createObjects(database.pool, mapping, signal)),
    );
    expect(await query(`select from pg_trigger where tgname = 'map_inserted'`)).toHaveLength(3);
  }
});

it('lets the shop lock the tables that the worker waits for', async ({
  start,
  query,
  map,
  session,
  database,
}) => {
  await start();
  await query(`insert into store.clients (id) values ('a')`);
  const shop = await session();
  await shop('begin; lock table store.orders in access exclusive mode');
  const mapped = map();
  mapped.catch(() => {});
  // Beyond `deadlock_timeout`, the worker no longer finds the deadlock that the next statement makes.
  const isOver = `select coalesce(max(now() - query_start) > interval '1.2 s', false) as "isOver"
    from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  let looks = 0;
  await expect
    .poll(
      async () => {
        looks += 1;
        return (await query(isOver))[0].isOver || looks > 40;
      },
      { interval: 100 },
    )
    .toBe(true);
  await shop('lock table store.clients in access exclusive mode; commit');
  await mapped;
  expect(
    await withConnection(database.pool, () => query('select name from customers')),
  ).toHaveLength(1);
});
