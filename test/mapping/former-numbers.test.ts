import { describe, expect } from 'vitest';
import { migrate } from '../../src/postgres/schema/migrate.ts';
import { createMapper } from '../../sync/mapping/mapper.ts';
import { documentedFile } from '../support/documented-database.ts';
import { it, log } from './small-shop.ts';

/** The schema of the release before mapped_customer_numbers. */
const before = `
  drop table if exists mapped_customer_numbers, mapped_purchase_numbers;
  drop table if exists customer_numbers, purchase_numbers;
  drop function if exists keys_of_type;
  alter table mapping_state drop column if exists comparison_reason, drop column if exists comparison;
  alter table mapping_changes drop column if exists reason, drop column if exists transaction_id;
  alter table mapping_state drop column if exists emptied_at, drop column if exists emptied_in, add primary key (is_singleton);
  delete from schema_migrations where version >= 11;`;
/** As `apply` of that release has left it. */
const applied = `
  create table customer_numbers (id bigint not null, external_id text);
  create table purchase_numbers (id bigint not null, external_id bigint, customer_external_id text);
  create unique index customer_numbers_by_external_id on customer_numbers (external_id);
  create unique index purchase_numbers_by_external_id on purchase_numbers (external_id);
  insert into customer_numbers (id, external_id) select id, external_id from mapped_customer_numbers;
  insert into purchase_numbers select id, external_id, customer_external_id from mapped_purchase_numbers;`;
const upserts = async () => (await documentedFile('upsert-tables.sql')).replace(/^grant .*$/gm, '');

describe('the migration of the numbers of a mapping', () => {
  it('keeps the ids of mapped rows, and takes no others', async ({ start, query, database }) => {
    await start(`insert into store.clients (id, name) values ('a', 'Ana');
      insert into store.orders (id, client_id) values (1, 'a'), (2, null)`);
    await query(`alter table mapped_customer_numbers rename to x; alter table x rename to mapped_customer_numbers;
      ${before.replace(/drop table if exists .*;/g, '')} drop table if exists customer_numbers, purchase_numbers; ${applied}
      drop table mapped_customer_numbers, mapped_purchase_numbers;
      insert into customers (id, organization_id) values (1000, 2);
      insert into customer_numbers (id, external_id) values (1000, 'of another'), (1001, 'deleted')`);
    const rows = () => query('select * from purchases order by id');
    const known = await rows();
    await migrate(database.url);
    expect(await query('select to_regclass($$customer_numbers$$) as old')).toEqual([{ old: null }]);
    expect(
      await query(
        'select external_id, organization_id as org, is_stored from mapped_customer_numbers',
      ),
    ).toEqual([{ external_id: 'a', org: 1n, is_stored: true }]);
    await query(`insert into mapping_changes (view) values ('mapped_customers')`);
    await createMapper({ database: database.pool, pollIntervalMs: 10, log }).once();
    expect((await rows()).map(({ updated_at: _, ...row }: { updated_at: unknown }) => row)).toEqual(
      known.map(({ updated_at: _, ...row }: { updated_at: unknown }) => row),
    );
    expect(await query('select repaired from mapping_state')).toEqual([{ repaired: 0n }]);
  });

  it('leaves the tables of upserts as they are', async ({ start, query, database }) => {
    await start();
    await query(`delete from mapping_state; ${before} ${await upserts()}`);
    await query(`insert into customer_numbers (organization_id, external_id) values (1, 'c-1')`);
    const numbers = () => query('select organization_id, external_id from customer_numbers');
    const known = await numbers();
    await migrate(database.url);
    expect(await numbers()).toEqual(known);
    expect(await query('select * from mapped_customer_numbers')).toEqual([]);
  });

  it('refuses tables that upserts and a mapping have used, and names the lines to run', async ({
    start,
    query,
    database,
  }) => {
    await start();
    await query(`${before} ${await upserts()}
      create unique index customer_numbers_by_external_id on customer_numbers (external_id);
      alter table purchase_numbers add column customer_external_id text`);
    await expect(migrate(database.url)).rejects.toThrow(
      /customer_numbers has other columns than a mapping, .*`delete from mapping_state;`/,
    );
    await query('delete from mapping_state; drop index customer_numbers_by_external_id');
    await migrate(database.url);
    expect(await query('select * from mapped_customer_numbers')).toEqual([]);
  });
});
