import sql from 'sql-template-tag';
import { expect } from 'vitest';
import { createPool, firstRow } from '../../src/postgres/connection/pool.ts';
import { test } from '../support/fixtures.ts';

test('a pool that has ended has no connection to Postgres', async ({ database }) => {
  const applicationName = 'crm-data-service ending';
  const count = sql`
    select count(*)::int as open from pg_stat_activity where application_name = ${applicationName}`;
  for (let round = 0; round < 20; round += 1) {
    const pool = createPool(database.url, { applicationName, min: 1, max: 4 });
    await Promise.all([1, 2, 3, 4].map(() => pool.query('select pg_sleep(0.01)')));
    expect(await firstRow(database.pool, count)).toEqual({ open: 4 });
    await pool.end();
    expect(await firstRow(database.pool, count)).toEqual({ open: 0 });
  }
});
