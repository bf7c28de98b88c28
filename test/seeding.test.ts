import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { withConnection } from '../src/postgres/connection/pool.ts';
import { type SeedOptions, seedDatabase } from '../src/seed/seed-database.ts';
import { isolatedTest as it } from './support/fixtures.ts';
import { createTestDatabase, type TestDatabase } from './support/postgres.ts';
import { seededTables } from './support/seeded-tables.ts';

const options: SeedOptions = {
  organizations: 1,
  customers: 100,
  purchases: 500,
  seed: 42,
  until: new Date('2025-06-15T12:34:56.789Z'),
};

async function checksums({ pool }: TestDatabase): Promise<Record<string, string>> {
  const sums: Record<string, string> = {};
  for (const table of seededTables) {
    const { rows } = await pool.query(
      // The identity of an organization is random.
      `select md5(string_agg(line, '|' order by line)) as sum
         from (select (to_jsonb(t) - 'identity')::text as line from ${table} as t) as lines`,
    );
    sums[table] = rows[0].sum;
  }
  return sums;
}

describe('seeding', () => {
  it('adds organizations to those of another seeding, without a collision of ids', {
    tags: ['slow'],
  }, async ({ database }) => {
    const first = await seedDatabase(database.url, options);
    const second = await seedDatabase(database.url, options);
    const ids = [...first, ...second].map(({ organizationId }) => organizationId);
    expect(ids).toEqual([1n, 2n]);
    const { rows } = await database.pool.query(
      `select (select count(*) from purchases) as purchases, nextval(
         pg_get_serial_sequence('customers', 'id')) > (select max(id) from customers) as is_next`,
    );
    expect(rows).toEqual([{ purchases: 1000n, is_next: true }]);
    // Also without purchases, and without customers.
    const none = { ...options, purchases: 0 };
    expect(await seedDatabase(database.url, { ...none, customers: 1 })).toHaveLength(1);
    expect(await seedDatabase(database.url, { ...none, customers: 0 })).toHaveLength(1);
  });

  it.for([
    ['nothing in one transaction', true, 0],
    ['what was named in a transaction for each organization', false, 1],
  ] as const)(
    'ends at once if it is stopped, and leaves %s',
    { tags: ['slow'] },
    async ([_, isOneTransaction, left], { database }) => {
      const stopping = new AbortController();
      const named: string[] = [];
      const seeding = seedDatabase(database.url, {
        ...options,
        organizations: 3,
        isOneTransaction,
        signal: stopping.signal,
        onSeeded: async ({ name }) => void named.push(name),
        onProgress: (done) => {
          if (done > options.purchases) stopping.abort(new Error('stopped'));
        },
      });
      await expect(seeding).rejects.toThrow('stopped');
      const { rows } = await database.pool.query('select name from organizations');
      expect(rows.map(({ name }) => name)).toEqual(named);
      expect(named).toHaveLength(left);
    },
  );

  it('writes the same rows, ids included, for the same options', { tags: ['slow'] }, async () => {
    const sums: Record<string, string>[] = [];
    for (const seed of [7, 7, 8]) {
      const other = await createTestDatabase();
      try {
        await seedDatabase(other.url, { ...options, organizations: 2, seed });
        sums.push(await checksums(other));
      } finally {
        await other.drop();
      }
    }
    expect(sums[1]).toEqual(sums[0]);
    expect(sums[2]?.purchases).not.toBe(sums[0]?.purchases);
  });

  it('refuses purchases without customers', async ({ database }) => {
    await expect(seedDatabase(database.url, { ...options, customers: 0 })).rejects.toThrow(
      'purchases need customers',
    );
  });

  it('writes no rows of an organization that fails', async ({ database }) => {
    await database.pool.query(`alter table purchases add check (payment_status <> 'voided')`);
    await expect(seedDatabase(database.url, options)).rejects.toThrow(
      'purchases_payment_status_check',
    );
    const { rows } = await database.pool.query('select count(*)::int as count from customers');
    expect(rows[0].count).toBe(0);
  });

  it('fails without ending the process if the connection is lost', async ({ database }) => {
    await withConnection(database.pool, async (connection) => {
      await connection.query('begin; lock table purchases in access exclusive mode');
      const seeding = seedDatabase(database.url, options).catch(String);
      for (let ended = 0; ended === 0; await sleep(10)) {
        // Outside the transaction, within which the view does not change.
        const { rows } = await database.pool.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and wait_event_type = 'Lock'`,
        );
        ended = rows.length;
      }
      expect(await seeding).toMatch(/terminat|ended/i);
      await connection.query('rollback');
    });
  });
});
