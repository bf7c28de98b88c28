import { applyMapping } from '../../src/postgres/mapping/apply.ts';
import { readMapping } from '../../src/postgres/mapping/mapping-definition.ts';
import { createMapper } from '../../sync/mapping/mapper.ts';
import { test } from '../support/fixtures.ts';
import { createRecordedLog } from '../support/logged-lines.ts';
import { addOrganization } from '../support/shop.ts';

export const tables = `
  create schema store;
  create table store.clients (id text primary key, name text, org bigint not null default 1, joined timestamptz, extra jsonb);
  create table store.emails (client_id text, email text);
  create table store.orders (
    id bigint primary key, client_id text, cents bigint not null default 100, divisor int not null default 1, org bigint not null default 1);
  create view mapped_customers as
    select id as external_id, org as organization_id, name, email, joined as created_at
    from store.clients left join store.emails on client_id = id;
  create view mapped_purchases as
    select id as external_id, org as organization_id, client_id as customer_external_id,
      cents / divisor as purchase_value_in_cents, timestamptz '2026-01-01Z' as created_at, 'paid' as payment_status
    from store.orders;
  insert into mapping_sources (view, source, key) values
    ('mapped_customers', 'store.clients', 'id'), ('mapped_customers', 'store.emails', 'client_id'),
    ('mapped_purchases', 'store.orders', 'id');`;

export const log = createRecordedLog();

/** A mapped shop with rows, and what a test does with it. */
export const it = test
  .extend(
    'apply',
    ({ database }) =>
      async (acceptDeletions = false, onProgress: (rows: number) => void = () => {}) =>
        applyMapping(database.pool, await readMapping(database.pool), {
          acceptDeletions,
          onProgress,
          signal: new AbortController().signal,
        }),
  )
  .extend('query', ({ database }) => async (text: string) => {
    const results = await database.pool.query(text);
    return (Array.isArray(results) ? results.at(-1) : results).rows;
  })
  .extend('start', ({ database, apply, query }) => async (rows = '', schema = tables) => {
    await query(`
      drop schema if exists store cascade;
      drop view if exists mapped_customers, mapped_purchases;
      delete from mapping_sources; delete from mapping_changes; delete from mapping_state; delete from mapping_failures;
      delete from mapping_held_deletions; delete from organizations; alter sequence organizations_id_seq restart`);
    await addOrganization(database.pool);
    await addOrganization(database.pool);
    await query(schema);
    if (rows !== '') await query(rows);
    await apply();
  })
  .extend(
    'map',
    ({ database: { pool } }) =>
      () =>
        createMapper({ database: pool, pollIntervalMs: 10, log }).once(),
  );
