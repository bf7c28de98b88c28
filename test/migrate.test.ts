import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Postgrator from 'postgrator';
import { describe, expect } from 'vitest';
import { constraints } from '../src/postgres/constraints.ts';
import { migrate } from '../src/postgres/migrate.ts';
import { test } from './support/fixtures.ts';
import { sqlOf } from './support/markdown.ts';
import { addMembers, addRow } from './support/rows.ts';
import { addCustomer, addOrganization, addPurchase } from './support/shop.ts';

const migrationFolder = fileURLToPath(new URL('../src/migrations', import.meta.url));
const migrations = readdirSync(migrationFolder)
  .filter((name) => name.endsWith('.sql'))
  .sort();

const it = test
  /** An empty schema of an earlier version. */
  .extend('startFrom', ({ database }) => async (version: string) => {
    const { pool } = database;
    await pool.query('drop schema public cascade; create schema public');
    await new Postgrator({
      migrationPattern: join(migrationFolder, '*.sql'),
      driver: 'pg',
      schemaTable: 'schema_migrations',
      currentSchema: 'public',
      execQuery: (query) => pool.query(query),
    }).migrate(version);
  });

describe('migrate', () => {
  it('does nothing the second time', async ({ database }) => {
    expect(await migrate(database.url)).toEqual({
      applied: [],
      restored: [],
      isCaptureRestored: false,
      captureProblem: null,
      mixedTables: [],
    });
  });

  it('restores each constraint and index as the migrations create it', async ({ database }) => {
    const { pool, url } = database;
    const definitions = async () => {
      const { rows } = await pool.query(
        `select conname as name, replace(pg_get_constraintdef(oid), ' NOT VALID', '') as definition
         from pg_constraint where connamespace = current_schema()::regnamespace
         union all
         select indexname, indexdef from pg_indexes where schemaname = current_schema()
         order by 1, 2`,
      );
      return rows;
    };
    const before = await definitions();
    // Foreign keys before the indexes that they need.
    for (const { statement, table, name } of constraints.toReversed()) {
      const isIndex = statement.startsWith('create');
      await pool.query(
        isIndex ? `drop index ${name}` : `alter table ${table} drop constraint ${name}`,
      );
    }
    const { restored } = await migrate(url);
    expect(restored).toHaveLength(constraints.length);
    expect(await definitions()).toEqual(before);
  });

  it('restores what was dropped with a column, once the column is there again', async ({
    database: { pool, url },
  }) => {
    await pool.query(`
      alter table purchases drop column utm_term, drop column coupons;
      alter table purchases add column utm_term text, add column coupons jsonb;
      alter table template_campaigns drop column channel`);
    await expect(migrate(url)).rejects.toThrow(
      'Cannot restore template_campaigns_channel_check on template_campaigns: ' +
        'column "channel" does not exist. Add the column again.',
    );
    await pool.query('alter table template_campaigns add column channel text');
    expect(await migrate(url)).toMatchObject({
      applied: [],
      restored: [
        'template_campaigns_channel_check on template_campaigns',
        'purchases_coupons_check on purchases',
        'coupons_at_most_65536_bytes on purchases',
        'texts_at_most_1024_bytes on purchases',
      ],
    });
    expect(await migrate(url)).toMatchObject({ restored: [] });
  });

  it('applies each file once if it runs twice concurrently', async ({ database }) => {
    await database.pool.query('drop schema public cascade; create schema public');
    const runs = await Promise.all([migrate(database.url), migrate(database.url)]);
    expect(runs.flatMap(({ applied }) => applied).sort()).toEqual(migrations);
    expect(runs.some(({ applied }) => applied.length === 0)).toBe(true);
    expect(runs.filter(({ isCaptureRestored }) => isCaptureRestored)).toHaveLength(1);
  });

  it('copies the sort keys of customers to existing links', async ({ database, startFrom }) => {
    const { pool, url } = database;
    await startFrom('4');
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

  it('keeps rows of two organizations, and checks all after their correction', async ({
    database,
    startFrom,
  }) => {
    const { pool, url } = database;
    await startFrom('7');
    const [one, other] = [await addOrganization(pool), await addOrganization(pool)];
    const [own, others] = [await addCustomer(pool, one), await addCustomer(pool, other)];
    const tag = await addRow(pool, 'tags', { organization_id: one });
    const right = await addPurchase(pool, one, { customer_id: own });
    const wrong = await addPurchase(pool, one, { customer_id: others });
    await addMembers(pool, 'tag', one, tag, [own, others]);

    expect(await migrate(url)).toMatchObject({
      applied: migrations.slice(7),
      mixedTables: ['customer_tags', 'purchases'],
    });
    const again = addPurchase(pool, one, { customer_id: others });
    await expect(again).rejects.toMatchObject({ constraint: 'customer_of_same_organization' });
    await pool.query('update purchases set purchase_value_in_cents = 7');

    const [find, correct, unlink] = await sqlOf('docs/your-data.md', 'Rows of two organizations');
    expect((await pool.query(find as string)).rows).toMatchObject([{ id: wrong }]);
    for (const statement of [correct, unlink]) await pool.query(statement as string);
    expect(await migrate(url)).toMatchObject({ applied: [], mixedTables: [] });
    const { rows } = await pool.query(
      `select organization_id, array_agg(id order by id) as purchases from purchases
       group by organization_id order by organization_id`,
    );
    expect(rows).toEqual([
      { organization_id: one, purchases: [String(right)] },
      { organization_id: other, purchases: [String(wrong)] },
    ]);
    const { rowCount } = await pool.query(
      `select from pg_constraint where contype = 'f' and not convalidated`,
    );
    expect(rowCount).toBe(0);
  });
});
