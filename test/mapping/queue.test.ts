import { describe, expect } from 'vitest';
import { withConnection } from '../../src/postgres/connection/pool.ts';
import { it } from './small-shop.ts';

const order = (id: number) => `insert into store.orders (id) values (${id})`;

describe('the queue of a mapping', () => {
  it('has a change that commits after later ones were mapped', async ({
    database,
    start,
    map,
    query,
  }) => {
    await start();
    const count = async () => Number((await query('select count(*) from purchases'))[0].count);
    await withConnection(database.pool, async (late) => {
      await late.query(`begin; ${order(1)}`);
      for (const id of [2, 3]) {
        await query(order(id));
        await map();
      }
      expect(await count()).toBe(2);
      await late.query('commit');
    });
    await map();
    expect(await count()).toBe(3);
    expect(await query('select * from mapping_changes')).toEqual([]);
  });

  it('is read from its beginning in another database, whose transactions have other ids', async ({
    start,
    map,
    query,
  }) => {
    await start();
    await map();
    await query(order(1));
    // As in a restored dump of a server with more transactions.
    await query(
      `update mapping_state set emptied_at = '900000000000:900000000000:', emptied_in = '1/2'`,
    );
    await map();
    expect(await query('select id from purchases')).toHaveLength(1);
    expect(await query('select * from mapping_changes')).toEqual([]);
  });

  it('belongs to one state, also if two processes apply the mapping at once', async ({
    start,
    apply,
    query,
  }) => {
    await start();
    await query('delete from mapping_state');
    await Promise.all([apply(), apply()]);
    expect(await query('select * from mapping_state')).toHaveLength(1);
  });
});
