import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, vi } from 'vitest';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { captureSql } from '../../src/postgres/capture/capture.ts';
import { withConnection } from '../../src/postgres/connection/pool.ts';
import { migrate } from '../../src/postgres/schema/migrate.ts';
import { organizationDirectory, readCurrent } from '../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../src/purchase-store/format/layout.ts';
import { readPendingChanges } from '../../sync/capture/pending-changes.ts';
import { test } from '../support/fixtures.ts';
import { publishedPurchases } from '../support/published.ts';
import { addACent as addACentToAll, addPurchases } from '../support/shop.ts';
import { createTestWorker } from '../support/sync.ts';

const it = test
  /** The data folder of `otherWorker`. */
  .extend('otherDirectory', { scope: 'file' }, ({ directory }) => join(directory, 'other'))
  .extend('otherWorker', { scope: 'file' }, async ({ database, otherDirectory }, { onCleanup }) => {
    const worker = await createTestWorker(database.pool, otherDirectory);
    onCleanup(worker.close);
    return worker;
  })
  /** An organization with 50 new purchases, which are published in `directory`. */
  .extend('organizationId', async ({ database, shop, customerId, worker }) => {
    await database.pool.query('delete from purchases');
    await addPurchases(database.pool, shop.organizationId, customerId, 50);
    await worker.once([shop.organizationId]);
    return shop.organizationId;
  });

const addACent = `${addACentToAll} where id % 3 = 0`;
/** A transaction of another test may be open that began before a function was restored. */
const patiently = { timeout: 60_000 };

/** Writes without log entries, and statements that remove log entries. */
const noticed: readonly (readonly [string, string])[] = [
  [
    'a trigger is disabled and enabled again in one transaction',
    `alter table purchases disable trigger log_updated_purchases; ${addACent};
     alter table purchases enable trigger log_updated_purchases`,
  ],
  [
    'a trigger is dropped and created again',
    `drop trigger log_deleted_purchases on purchases; delete from purchases where id % 5 = 0;
     ${captureSql}`,
  ],
  [
    'a trigger function is replaced and restored',
    `create or replace function log_updated_purchases() returns trigger language plpgsql
       as 'begin return null; end'; ${addACent}; ${captureSql}`,
  ],
  [
    'ALTER TABLE rewrites a column',
    `alter table purchases alter column purchase_value_in_cents
       type bigint using purchase_value_in_cents * 100`,
  ],
  [
    'a column is dropped and added with a default',
    `alter table purchases drop column utm_term;
     alter table purchases add column utm_term text default 'late'`,
  ],
  [
    'two columns exchange their names',
    `update purchases set utm_source = 'a', utm_medium = 'b';
     alter table purchases rename column utm_source to former;
     alter table purchases rename column utm_medium to utm_source;
     alter table purchases rename column former to utm_medium`,
  ],
  [
    'a write through a temporary parent table',
    `drop trigger purchases_without_parent on purchases;
     create table parent (); alter table purchases inherit parent; delete from parent;
     alter table purchases no inherit parent; drop table parent; ${captureSql}`,
  ],
  ['TRUNCATE', 'truncate purchases'],
  [
    'TRUNCATE, and an INSERT with session_replication_role = replica',
    `create temporary table kept as table purchases; truncate purchases;
     set local session_replication_role = replica;
     insert into purchases select (jsonb_populate_record(kept, '{"utm_term": "new"}')).* from kept`,
  ],
  ['TRUNCATE of the change log', `${addACent}; truncate purchase_changes`],
  ['DELETE of all entries of the change log', `${addACent}; delete from purchase_changes`],
  [
    'another table replaces the change log',
    `${addACent}; alter table purchase_changes rename to former;
     create table purchase_changes (like former including all); drop table former`,
  ],
  ['CLUSTER', `cluster purchases using purchases_pkey; ${addACent}`],
  // Last, because its indexes have other names then.
  [
    'another table replaces purchases',
    `create table other (like purchases including all); insert into other select * from purchases;
     alter table purchases rename to former; alter table other rename to purchases; ${addACent};
     drop table former; ${captureSql}`,
  ],
];

/** Statements that change no purchase. */
const harmless: readonly (readonly [string, string])[] = [
  ['SET STATISTICS', 'alter table purchases alter column organization_id set statistics 500'],
  ['SET (n_distinct)', 'alter table purchases alter column platform set (n_distinct = 6)'],
  ['SET DEFAULT', `alter table purchases alter column platform set default 'shopify'`],
  ['DROP DEFAULT', 'alter table purchases alter column platform drop default'],
  ['SET NOT NULL', 'alter table purchases alter column purchase_value_in_cents set not null'],
  ['DROP NOT NULL', 'alter table purchases alter column purchase_value_in_cents drop not null'],
  ['SET STORAGE', 'alter table purchases alter column coupons set storage external'],
  [
    'SET GENERATED',
    `alter table purchases alter column id set generated always;
     alter table purchases alter column id set generated by default`,
  ],
  ['a wider type', 'alter table purchases alter column status type varchar'],
  ['GRANT on a column', 'grant select (id) on purchases to public'],
  [
    'a column has another name for a while',
    `alter table purchases rename column platform to former;
     alter table purchases rename column former to platform`,
  ],
  [
    'columns, constraints and indexes of the shop',
    `alter table purchases add column note text default 'none', add check (note <> '');
     create index on purchases (note); comment on column purchases.note is 'Ours'`,
  ],
  ['settings of the table', 'alter table purchases set (autovacuum_vacuum_scale_factor = 0.01)'],
];

describe('ALTER TABLE', () => {
  it.for(harmless)(
    'causes no rebuild by %s',
    async ([_, statement], { database, directory, organizationId, expectEqual, worker }) => {
      const generation = () =>
        readCurrent(organizationDirectory(directory, organizationId), layoutVersion);
      const before = generation();
      await database.pool.query(`begin; ${statement}; ${addACent}; commit`);
      await worker.once([organizationId]);
      expect(generation()).toMatchObject({ base: before?.base, log: before?.log });
      await expectEqual();
    },
  );

  it('cannot give purchases a parent, whose writes would fire no trigger', async ({ database }) => {
    await database.pool.query('create table parent ()');
    const inherit = database.pool.query('alter table purchases inherit parent');
    await expect(inherit).rejects.toThrow(/"purchases_without_parent" prevents/);
    await database.pool.query('drop table parent');
  });
});

describe('a write that bypasses capture', () => {
  it.for(noticed)(
    'is noticed by a running worker and by one that starts later: %s',
    { tags: ['slow'] },
    async (
      [_, statements],
      { database, organizationId, engine, followChanges, otherWorker, otherDirectory, expectEqual },
    ) => {
      await otherWorker.once([organizationId]);
      followChanges();
      const before = (await engine.freshness(organizationId)) as bigint;
      await engine.waitUntilFresh(organizationId, before + 1n, AbortSignal.timeout(60_000));
      await database.pool.query(`begin; ${statements}; commit`);
      const query = { filters: {}, groupLimit: 1 };
      const postgres = createPostgresEngine(database.pool);
      const { asOf: committed, result: expected } = await readPurchaseStats(
        postgres,
        organizationId,
        query,
      );
      // No result contradicts its instant.
      for (let asOf = 0n; asOf < committed; await sleep(30)) {
        const found = await readPurchaseStats(engine, organizationId, query);
        expect(found.asOf).toBeGreaterThanOrEqual(asOf);
        asOf = found.asOf;
        if (asOf >= committed) expect(found.result).toEqual(expected);
      }
      await expectEqual();
      await vi.waitFor(() => otherWorker.once([organizationId]), patiently);
      await expectEqual(otherDirectory);
    },
  );
});

/** Statements after which changes are not captured, and the error of the worker. */
const uncaptured: readonly {
  readonly name: string;
  readonly statements: string;
  readonly message: RegExp;
  /** SQL that repairs capture. By default, `npx crm-data-service migrate` repairs it. */
  readonly repair?: string;
}[] = [
  {
    name: 'all triggers were disabled and enabled, as by pg_restore --disable-triggers',
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
    name: 'a trigger function does nothing',
    statements: `create or replace function log_deleted_purchases() returns trigger language plpgsql
       security definer as 'begin return null; end'`,
    message: /log_deleted_purchases on purchases calls a function with another definition/,
  },
  {
    name: 'a trigger function writes to another table',
    statements: `create schema elsewhere; create table elsewhere.purchase_changes (like purchase_changes);
     alter function log_deleted_purchases() set search_path to elsewhere, public, pg_temp`,
    message: /log_deleted_purchases on purchases calls a function with another definition/,
  },
  {
    name: 'another table inherits from purchases',
    statements: 'create table more () inherits (purchases)',
    message: /purchases has a parent or children/,
    repair: 'drop table more',
  },
  {
    name: 'purchases inherits from another table',
    statements: `drop trigger purchases_without_parent on purchases;
     create table parent (like purchases); alter table purchases inherit parent;
     update parent set purchase_value_in_cents = 5 where id % 3 = 0`,
    message: /purchases has a parent or children/,
    repair: 'alter table purchases no inherit parent; drop table parent',
  },
  {
    name: 'the table is unlogged',
    statements: 'alter table purchases set unlogged',
    message: /purchases is unlogged/,
    repair: 'alter table purchases set logged',
  },
  {
    name: 'a column has another type',
    statements: 'alter table purchases alter column purchase_value_in_cents type numeric(12, 2)',
    message: /purchases.purchase_value_in_cents is numeric and should be bigint/,
    repair: 'alter table purchases alter column purchase_value_in_cents type bigint',
  },
];

describe('while changes are not captured', () => {
  it.for(uncaptured)(
    'the worker publishes nothing until capture is restored: $name',
    { tags: ['slow'] },
    async (
      { statements, message, repair },
      { database, directory, worker, organizationId, expectEqual },
    ) => {
      const before = await publishedPurchases(directory, organizationId);
      await database.pool.query(`begin; ${statements}; commit`);
      await database.pool.query(addACent);
      await expect(worker.once([organizationId])).rejects.toThrow(message);
      const { captureProblem } = await readPendingChanges(database.pool, new Map());
      expect(captureProblem?.message).toMatch(message);
      expect(await publishedPurchases(directory, organizationId)).toEqual(before);

      if (repair === undefined) {
        const restored = { applied: [], isCaptureRestored: true, captureProblem: null };
        expect(await migrate(database.url)).toMatchObject(restored);
      } else {
        await database.pool.query(repair);
        expect(await migrate(database.url)).toMatchObject({ captureProblem: null });
      }
      await vi.waitFor(() => worker.once([organizationId]), patiently);
      await expectEqual();
    },
  );

  it('the worker waits for open transactions that may have called a function before its repair', async ({
    database,
    worker,
    organizationId,
    expectEqual,
  }) => {
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
      await expect(worker.once([organizationId])).rejects.toThrow(
        /A transaction is open that may have called/,
      );
      await writer.query('commit');
    });
    await vi.waitFor(() => worker.once([organizationId]), patiently);
    await expectEqual();
  });
});
