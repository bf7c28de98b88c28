import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { captureSql } from '../../src/postgres/capture.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { withConnection } from '../../src/postgres/pool.ts';
import { readPendingChanges } from '../../sync/capture/pending-changes.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
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
const totalsInPostgres = () =>
  createPostgresEngine(database.pool).stats(organization, { filters: {}, groupLimit: 1 });
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
  [
    'writes through a parent that was there for a moment',
    `create table parent (like purchases); alter table purchases inherit parent;
     update parent set purchase_value_in_cents = 5 where id % 3 = 0;
     alter table purchases no inherit parent; drop table parent`,
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
  it.each(noticed)('%s, and no answer contradicts its instant', async (_name, statements) => {
    const stop = new AbortController();
    const running = worker.run(stop.signal);
    const engine = await createTestDuckDBEngine(directory.path);
    try {
      const before = await engine.freshness(organization);
      await engine.waitUntilFresh(
        organization,
        (before as bigint) + 1n,
        AbortSignal.timeout(60_000),
      );
      await database.pool.query(`begin; ${statements}; commit`);
      const { asOf: committed, result: expected } = await totalsInPostgres();
      let asOf = 0n;
      while (asOf < committed) {
        const found = await engine.stats(organization, { filters: {}, groupLimit: 1 });
        expect(found.asOf).toBeGreaterThanOrEqual(asOf);
        asOf = found.asOf;
        if (asOf >= committed) expect(found.result).toEqual(expected);
        await sleep(5);
      }
      expect(await published()).toEqual(await stored());
    } finally {
      await engine.close();
      stop.abort();
      await running;
    }
  });
});

/** Statements after which changes are not captured, and what the worker says about each. */
const uncaptured: readonly {
  readonly name: string;
  readonly statements: string;
  readonly message: RegExp;
  /** What an operator does; `migrate` does the rest. */
  readonly mended?: string;
}[] = [
  {
    name: 'all triggers were disabled and enabled, as pg_restore --disable-triggers does',
    statements: `alter table purchases disable trigger all; ${addACent};
     alter table purchases enable trigger all`,
    message: /log_replicated_purchases on purchases has tgenabled O and should have R/,
  },
  {
    name: 'a trigger is disabled',
    statements: `alter table purchases disable trigger log_inserted_purchases`,
    message: /log_inserted_purchases on purchases is disabled/,
  },
  {
    name: 'a trigger is missing',
    statements: 'drop trigger log_updated_purchases on purchases',
    message: /log_updated_purchases on purchases is missing/,
  },
  {
    name: 'a trigger has a condition',
    statements: `drop trigger log_replicated_purchases on purchases;
     create trigger log_replicated_purchases after insert or update or delete on purchases
       for each row when (false) execute function log_replicated_purchases();
     alter table purchases enable replica trigger log_replicated_purchases`,
    message: /log_replicated_purchases on purchases has another definition/,
  },
  {
    name: 'a function does nothing',
    statements: `create or replace function log_deleted_purchases() returns trigger language plpgsql
       security definer as 'begin return null; end'`,
    message: /log_deleted_purchases on purchases calls a function with another definition/,
  },
  {
    name: 'a function writes elsewhere',
    statements: `create schema elsewhere; create table elsewhere.purchase_changes (like purchase_changes);
     alter function log_deleted_purchases() set search_path to elsewhere, public, pg_temp`,
    message: /log_deleted_purchases on purchases calls a function with another definition/,
  },
  {
    name: 'another table inherits from purchases',
    statements: 'create table more () inherits (purchases)',
    message: /purchases has a parent or children/,
    mended: 'drop table more',
  },
  {
    name: 'purchases inherits from another table',
    statements: `create table parent (like purchases); alter table purchases inherit parent;
     update parent set purchase_value_in_cents = 5 where id = 1`,
    message: /purchases has a parent or children/,
    mended: 'alter table purchases no inherit parent; drop table parent',
  },
  {
    name: 'the table is unlogged',
    statements: 'alter table purchases set unlogged',
    message: /purchases is unlogged/,
    mended: 'alter table purchases set logged',
  },
  {
    name: 'a column has another type',
    statements: 'alter table purchases alter column purchase_value_in_cents type numeric(12, 2)',
    message: /purchases.purchase_value_in_cents is numeric and should be bigint/,
    mended: 'alter table purchases alter column purchase_value_in_cents type bigint',
  },
];

describe('while changes are not captured', () => {
  it.each(uncaptured)(
    'because $name, nothing is published, status says so, and migrate or the operator ends it',
    async ({ statements, message, mended }) => {
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
    },
  );
});

describe('a function that is restored while a writer is open that called the broken one', () => {
  it('publishes nothing before that writer ends, and its changes then', async () => {
    const { rows } = await database.pool.query<{ definition: string }>(
      `select pg_get_functiondef('log_updated_purchases'::regproc) as definition`,
    );
    await database.pool.query(
      `create or replace function log_updated_purchases() returns trigger language plpgsql
         as 'begin return null; end'`,
    );
    await withConnection(database.pool, async (writer) => {
      await writer.query(`begin; ${addACent}`);
      await database.pool.query(rows[0]?.definition ?? '');
      await expect(worker.syncAll()).rejects.toThrow(/A transaction is open that may have called/);
      await writer.query('commit');
    });
    await vi.waitFor(() => worker.syncAll(), { timeout: 60_000 });
    expect(await published()).toEqual(await stored());
  });
});

const restored = { applied: [], isCaptureRestored: true, captureProblem: null };
