import { fileURLToPath } from 'node:url';
import Postgrator from 'postgrator';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { migrate } from '../src/postgres/migrate.ts';
import { createTestDatabase, type TestDatabase } from './support/postgres.ts';
import { addMembers, addRow } from './support/rows.ts';
import { addOrganization } from './support/shop.ts';

describe('migrate', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database.drop());

  it('does nothing the second time', async () => {
    expect(await migrate(database.url)).toEqual({
      applied: [],
      isCaptureRestored: false,
      captureProblem: null,
    });
  });

  it('applies each file once when it runs from two places at once', async () => {
    await database.pool.query('drop schema public cascade; create schema public');
    const runs = await Promise.all([migrate(database.url), migrate(database.url)]);
    expect(runs.flatMap(({ applied }) => applied).sort()).toEqual([
      '001.do.resources.sql',
      '002.do.purchase-changes.sql',
      '003.do.search.sql',
      '004.do.rate-limits.sql',
      '005.do.bounded-lists.sql',
      '006.do.source-identity.sql',
      '007.do.text-lengths.sql',
    ]);
    expect(runs.some(({ applied }) => applied.length === 0)).toBe(true);
    expect(runs.filter(({ isCaptureRestored }) => isCaptureRestored)).toHaveLength(1);
  });

  it('tells links from before what their customers are sorted by', async () => {
    const { pool, url } = database;
    await pool.query('drop schema public cascade; create schema public');
    await new Postgrator({
      migrationPattern: fileURLToPath(new URL('../src/migrations/*.sql', import.meta.url)),
      driver: 'pg',
      schemaTable: 'schema_migrations',
      currentSchema: 'public',
      execQuery: (query) => pool.query(query),
    }).migrate('4');
    const organization_id = await addOrganization(pool);
    const values = { organization_id, total_spent_in_cents: 5, created_at: '2026-01-02T00:00:00Z' };
    const customer = await addRow(pool, 'customers', values);
    for (const relation of ['tag', 'segment'] as const) {
      const id = await addRow(pool, `${relation}s`, { organization_id });
      await addMembers(pool, relation, organization_id, id, [customer]);
    }
    expect((await migrate(url)).applied).toContain('005.do.bounded-lists.sql');
    for (const table of ['customer_tags', 'segment_customers']) {
      const { rows } = await pool.query(
        `select customer_total_spent_in_cents as total, customer_created_at = created_at as is_same,
           customer_updated_at = updated_at as is_same_update
         from ${table} join customers on id = customer_id`,
      );
      expect(rows, table).toEqual([{ total: 5n, is_same: true, is_same_update: true }]);
    }
  });
});
