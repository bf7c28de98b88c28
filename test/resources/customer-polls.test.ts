import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { parseInstant } from '../../src/domain/instant.ts';
import { encodeId } from '../../src/domain/public-id.ts';
import { createPool } from '../../src/postgres/connection/pool.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { test as it } from '../support/fixtures.ts';
import type { Item } from '../support/paging.ts';
import { createReaderRole } from '../support/role.ts';
import { addCustomer } from '../support/shop.ts';

/** Polls as docs/api.md says. Returns the ids and the `updated_since` of the next poll. */
async function poll(api: TestApi, secret: string, since: string) {
  const url = `/v1/customers?limit=100&updated_since=${since}`;
  const response = await api.get(url, secret);
  expect(response.statusCode, response.body).toBe(200);
  const ids = response.json<{ data: Item[] }>().data.map(({ id }) => id);
  return { ids, next: String(response.headers['x-data-as-of']) };
}

const touch = 'update customers set updated_at = now() where id = $1';

describe('polls of customers by updated_since', () => {
  it.for(['before its first write', 'after its first write'])(
    'miss no transaction that commits after a poll that began %s',
    async (moment, { database: { pool }, api, newShop: { organizationId, secret } }) => {
      const late = await addCustomer(pool, organizationId);
      const early = await addCustomer(pool, organizationId);
      const writer = await pool.connect();
      try {
        await writer.query('begin');
        await writer.query('select now()');
        await sleep(1_100);
        if (moment === 'after its first write') await writer.query(touch, [late]);
        await pool.query(touch, [early]);
        const first = await poll(api, secret, '2100-01-01T00:00:00Z');
        const second = await poll(api, secret, first.next);
        expect(second.ids).toContain(encodeId('customer', early));
        expect(second.ids).not.toContain(encodeId('customer', late));
        if (moment === 'before its first write') await writer.query(touch, [late]);
        await writer.query('commit');
        const third = await poll(api, secret, second.next);
        expect(third.ids).toContain(encodeId('customer', late));
      } finally {
        writer.release(true);
      }
    },
  );

  it('return nothing that no transaction has changed since', async ({
    database: { pool },
    api,
    newShop: { organizationId, secret },
  }) => {
    const customer = await addCustomer(pool, organizationId);
    await pool.query(touch, [customer]);
    let { next } = await poll(api, secret, '2000-01-01T00:00:00Z');
    const deadline = performance.now() + 60_000;
    for (let ids = ['']; ids.length > 0 && performance.now() < deadline; ) {
      await sleep(100);
      ({ ids, next } = await poll(api, secret, next));
    }
    expect((await poll(api, secret, next)).ids).toEqual([]);
  });

  it('overlap by an hour if the role may not see other sessions', async ({
    database,
    directory,
    newShop: { secret },
    onTestFinished,
  }) => {
    const role = await createReaderRole(database);
    const pool = createPool(role.url, { max: 4, applicationName: 'test' });
    const api = await createTestApi(pool, directory);
    onTestFinished(async () => {
      await api.close();
      await pool.end();
      await role.drop();
    });
    const { next } = await poll(api, secret, '2000-01-01T00:00:00Z');
    const { rows } = await database.pool.query<{ age: number }>(
      'select extract(epoch from clock_timestamp() - $1::timestamptz)::float8 as age',
      [next],
    );
    expect(parseInstant(next, 'down')).not.toBeNull();
    expect(rows[0]?.age).toBeGreaterThanOrEqual(3_600);
    expect(rows[0]?.age).toBeLessThan(3_700);
  });
});
