import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { captureSql } from '../../src/postgres/capture.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { readPendingChanges } from '../../sync/pending-changes.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { publishedPurchases, storedPurchases } from '../support/published.ts';
import { addCustomer, addOrganization, addPurchases } from '../support/shop.ts';
import { createTestWorker, type TestWorker } from '../support/sync.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

let database: TestDatabase;
let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
let worker: TestWorker;
let organization: bigint;

beforeEach(async () => {
  database = await createTestDatabase();
  directory = await temporaryDirectory();
  worker = await createTestWorker(database.pool, directory.path);
  organization = await addOrganization(database.pool);
  await addPurchases(
    database.pool,
    organization,
    await addCustomer(database.pool, organization),
    50,
  );
  await worker.syncAll();
});
afterEach(async () => {
  await worker.close();
  await database.drop();
  await directory.remove();
});

const published = () => publishedPurchases(directory.path, organization);
const stored = () => storedPurchases(database.pool, organization);
const addACent =
  'update purchases set purchase_value_in_cents = purchase_value_in_cents + 1 where id % 3 = 0';

/** Statements that the worker must notice by itself. */
const noticed: readonly (readonly [string, string])[] = [
  [
    'triggers that were disabled, and enabled as they were, in one transaction',
    `alter table purchases disable trigger log_updated_purchases; ${addACent};
     alter table purchases enable trigger log_updated_purchases`,
  ],
  [
    'a trigger that was dropped and created again',
    `drop trigger log_deleted_purchases on purchases; delete from purchases where id % 5 = 0;
     ${captureSql}`,
  ],
  [
    'a function that was replaced and restored',
    `create or replace function log_updated_purchases() returns trigger language plpgsql
       as 'begin return null; end'; ${addACent}; ${captureSql}`,
  ],
  [
    'a table that another one replaced',
    `create table other (like purchases including all); insert into other select * from purchases;
     alter table purchases rename to former; alter table other rename to purchases; ${addACent};
     drop table former; ${captureSql}`,
  ],
  [
    'a column that was rewritten',
    `alter table purchases alter column purchase_value_in_cents
       type bigint using purchase_value_in_cents * 100`,
  ],
  [
    'a column that was dropped and added with a default',
    `alter table purchases drop column utm_term;
     alter table purchases add column utm_term text default 'late'`,
  ],
  [
    'columns that exchanged their names',
    `update purchases set utm_source = 'a', utm_medium = 'b';
     alter table purchases rename column utm_source to former;
     alter table purchases rename column utm_medium to utm_source;
     alter table purchases rename column former to utm_medium`,
  ],
  ['a TRUNCATE', 'truncate purchases'],
  [
    'a TRUNCATE whose rows were inserted again under replica',
    `create temporary table kept as table purchases; truncate purchases;
     set local session_replication_role = replica;
     insert into purchases select (jsonb_populate_record(kept, '{"utm_term": "new"}')).* from kept`,
  ],
  ['a change log that was emptied', `${addACent}; truncate purchase_changes`],
  ['a change log that was emptied row by row', `${addACent}; delete from purchase_changes`],
  [
    'a change log that another one replaced',
    `${addACent}; alter table purchase_changes rename to former;
     create table purchase_changes (like former including all); drop table former`,
  ],
  ['a vacuum that rewrites the table', `cluster purchases using purchases_pkey; ${addACent}`],
];

describe('a worker that was away notices', () => {
  it.each(noticed)('%s', async (_name, statements) => {
    await database.pool.query(`begin; ${statements}; commit`);
    await worker.syncAll();
    expect(await published()).toEqual(await stored());
  });
});

describe('a running worker notices', () => {
  it.each(noticed)('%s', async (_name, statements) => {
    const stop = new AbortController();
    const running = worker.run(stop.signal);
    try {
      await database.pool.query(`begin; ${statements}; commit`);
      const expected = await stored();
      // Wrong for ever would end at the timeout.
      while (JSON.stringify(await published(), asText) !== JSON.stringify(expected, asText));
    } finally {
      stop.abort();
      await running;
    }
  });
});

const asText = (_name: string, value: unknown) =>
  typeof value === 'bigint' ? String(value) : value;

/** Statements after which changes are not captured, and what the worker says about each. */
const uncaptured: readonly (readonly [string, string, RegExp, string?])[] = [
  [
    'all triggers were disabled and enabled, as pg_restore --disable-triggers does',
    `alter table purchases disable trigger all; ${addACent};
     alter table purchases enable trigger all`,
    /log_replicated_purchases on purchases has tgenabled O and should have R/,
  ],
  [
    'a trigger is disabled',
    `alter table purchases disable trigger log_inserted_purchases`,
    /log_inserted_purchases on purchases is disabled/,
  ],
  [
    'a trigger is missing',
    'drop trigger log_updated_purchases on purchases',
    /log_updated_purchases on purchases is missing/,
  ],
  [
    'a trigger has a condition',
    `drop trigger log_replicated_purchases on purchases;
     create trigger log_replicated_purchases after insert or update or delete on purchases
       for each row when (false) execute function log_replicated_purchases();
     alter table purchases enable replica trigger log_replicated_purchases`,
    /log_replicated_purchases on purchases has another definition/,
  ],
  [
    'a function does nothing',
    `create or replace function log_deleted_purchases() returns trigger language plpgsql
       security definer as 'begin return null; end'`,
    /log_deleted_purchases on purchases calls a function with another definition/,
  ],
  [
    'a function writes elsewhere',
    `create schema elsewhere; create table elsewhere.purchase_changes (like purchase_changes);
     alter function log_deleted_purchases() set search_path to elsewhere, public, pg_temp`,
    /log_deleted_purchases on purchases calls a function with another definition/,
  ],
  [
    'another table inherits from purchases',
    'create table more () inherits (purchases)',
    /Other tables inherit from purchases/,
    'drop table more',
  ],
  [
    'the table is unlogged',
    'alter table purchases set unlogged',
    /purchases is unlogged/,
    'alter table purchases set logged',
  ],
  [
    'a column has another type',
    'alter table purchases alter column purchase_value_in_cents type numeric(12, 2)',
    /purchases.purchase_value_in_cents is numeric and should be bigint/,
    'alter table purchases alter column purchase_value_in_cents type bigint',
  ],
];

describe('while changes are not captured', () => {
  it.each(
    uncaptured,
  )('because %s, nothing is published, status says so, and migrate or the operator ends it', async (_name, statements, message, mended) => {
    const before = await published();
    await database.pool.query(`begin; ${statements}; commit`);
    await database.pool.query(addACent);
    await expect(worker.syncAll()).rejects.toThrow(message);
    const { captureProblem } = await readPendingChanges(database.pool, new Map());
    expect(captureProblem?.message).toMatch(message);
    expect(await published()).toEqual(before);

    if (mended === undefined) expect(await migrate(database.url)).toMatchObject(restored);
    else await database.pool.query(mended);
    expect(await migrate(database.url)).toMatchObject({ captureProblem: null });
    await worker.syncAll();
    expect(await published()).toEqual(await stored());
  });
});

const restored = { applied: [], isCaptureRestored: true, captureProblem: null };
