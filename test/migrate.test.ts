import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect } from 'vitest';
import { constraints } from '../src/postgres/schema/constraints.ts';
import { migrate } from '../src/postgres/schema/migrate.ts';
import { releasedMigrations } from '../src/postgres/schema/released-migrations.ts';
import { test as it } from './support/fixtures.ts';
import { sqlFile } from './support/markdown.ts';
import { addMembers, addRow } from './support/rows.ts';
import { addCustomer, addOrganization, addPurchase } from './support/shop.ts';

const migrationFolder = fileURLToPath(new URL('../src/migrations', import.meta.url));
const migrations = readdirSync(migrationFolder)
  .filter((name) => name.endsWith('.sql'))
  .sort();

describe('migrate', () => {
  it('does nothing the second time', async ({ database }) => {
    expect(await migrate(database.url)).toEqual({
      applied: [],
      restored: [],
      isCaptureRestored: false,
      captureProblem: null,
    });
  });

  it('has the files that were released, unchanged', () => {
    const md5Of = (file: string) =>
      createHash('md5')
        .update(readFileSync(join(migrationFolder, file)))
        .digest('hex');
    const released = Object.entries(releasedMigrations).map(([file, [md5]]) => [file, md5]);
    expect(migrations.map((file) => [file, md5Of(file)])).toEqual(released);
  });

  it('accepts the databases of former files whose statements are equal', async ({
    database: { pool, url },
  }) => {
    const stored = async () =>
      (await pool.query('select version, md5 from schema_migrations order by version')).rows;
    const before = await stored();
    for (const [file, [, ...former]] of Object.entries(releasedMigrations)) {
      for (const md5 of former) {
        await pool.query('update schema_migrations set md5 = $1 where version = $2', [
          md5,
          Number.parseInt(file, 10),
        ]);
        expect(await stored()).not.toEqual(before);
        expect(await migrate(url)).toMatchObject({ applied: [] });
        expect(await stored()).toEqual(before);
      }
    }
  });

  it('refuses the database of a file with other statements', async ({
    database: { pool, url },
  }) => {
    const { rows } = await pool.query('select md5 from schema_migrations where version = 9');
    const setMd5 = (md5: string) =>
      pool.query('update schema_migrations set md5 = $1 where version = 9', [md5]);
    await setMd5('0'.repeat(32));
    try {
      await expect(migrate(url)).rejects.toThrow('differs from the applied one');
    } finally {
      await setMd5(rows[0].md5);
    }
  });

  it('restores each constraint and index as it was', async ({ database }) => {
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
    for (const { isIndex, table, name } of constraints.toReversed()) {
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

  it('keeps rows of two organizations, which replication can write and docs/sql corrects', async ({
    database: { pool, url },
  }) => {
    const [one, other] = [await addOrganization(pool), await addOrganization(pool)];
    const [own, others] = [await addCustomer(pool, one), await addCustomer(pool, other)];
    const tag = await addRow(pool, 'tags', { organization_id: one });
    const right = await addPurchase(pool, one, { customer_id: own });
    await addMembers(pool, 'tag', one, tag, [own]);
    await pool.query(`
      alter table purchases drop constraint customer_of_same_organization;
      alter table customer_tags drop constraint customer_of_same_organization`);
    const wrong = await addPurchase(pool, one, { customer_id: others });
    await addMembers(pool, 'tag', one, tag, [others]);

    expect((await migrate(url)).restored).toHaveLength(2);
    const again = addPurchase(pool, one, { customer_id: others });
    await expect(again).rejects.toMatchObject({ constraint: 'customer_of_same_organization' });
    await pool.query('update purchases set purchase_value_in_cents = 7');

    const found = await pool.query(await sqlFile('rows-of-two-organizations.sql'));
    expect(found).toMatchObject([{ rows: [{ id: wrong }] }, { rowCount: 1 }, { rowCount: 1 }]);
    const { rows } = await pool.query(
      `select organization_id, array_agg(id order by id) as purchases from purchases
       group by organization_id order by organization_id`,
    );
    expect(rows).toEqual([
      { organization_id: one, purchases: [String(right)] },
      { organization_id: other, purchases: [String(wrong)] },
    ]);
    expect((await pool.query('select from customer_tags')).rowCount).toBe(1);
  });
});
