import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { captureSql } from '../../src/postgres/capture/capture.ts';
import { type Database, withConnection } from '../../src/postgres/connection/pool.ts';
import { isolatedTest } from '../support/fixtures.ts';
import {
  areEqual,
  expectEqual,
  publishedPurchases,
  storedPurchases,
} from '../support/published.ts';
import { addACent, addPurchases } from '../support/shop.ts';
import { syncOnce } from '../support/sync.ts';

/** Resolves when the published purchases are those of Postgres. */
async function untilEqual(database: Database, directory: string, organization: bigint) {
  for (;;) {
    const published = await publishedPurchases(directory, organization);
    if (areEqual(published, await storedPurchases(database, organization))) return;
    await sleep(50);
  }
}

/** `organization` has 50 purchases. */
const it = isolatedTest.extend('organization', async ({ database, shop, customerId }) => {
  await addPurchases(database.pool, shop.organizationId, customerId, 50);
  return shop.organizationId;
});

const tables = [
  'purchases',
  'purchase_changes',
  'purchase_change_pruning',
  'purchase_change_readers',
];
/** As pg_dump: the content of the tables in one snapshot. */
const dumpStatements = `begin isolation level repeatable read; create schema dump;
  ${tables.map((table) => `create table dump.${table} (like ${table} including all); insert into dump.${table} select * from ${table};`).join('\n')}
  commit`;
/** As `pg_restore --clean --if-exists`: drops and creates the tables, then the triggers. */
const restoreStatements = [
  ...tables.flatMap((table) => [
    `drop table if exists ${table}`,
    `create table ${table} (like dump.${table} including all)`,
    `insert into ${table} select * from dump.${table}`,
  ]),
  captureSql,
];

describe('a restored dump', () => {
  it.for([false, true])(
    'causes a rebuild by a running worker and by one that starts later (--single-transaction: %s)',
    { tags: ['slow'] },
    async (isSingle, { database: { pool }, directory, organization, worker, followChanges }) => {
      const later = join(directory, 'later');
      await worker.once([organization]);
      followChanges();
      await pool.query(dumpStatements);
      await pool.query(addACent);
      await syncOnce(pool, later);
      await untilEqual(pool, directory, organization);
      await withConnection(pool, async (connection) => {
        if (isSingle) await connection.query('begin');
        for (const statement of restoreStatements) await connection.query(statement);
        if (isSingle) await connection.query('commit');
      });
      await syncOnce(pool, later);
      await expectEqual(pool, later, organization);
      await untilEqual(pool, directory, organization);
      await pool.query(`${addACent} where id % 7 = 0`);
      await syncOnce(pool, later);
      await expectEqual(pool, later, organization);
      await untilEqual(pool, directory, organization);
    },
  );

  it('may have log entries with later transaction ids, which the worker removes', {
    tags: ['slow'],
  }, async ({ database: { pool }, directory, organization }) => {
    await syncOnce(pool, directory);
    const later = '900000000000';
    await pool.query('insert into purchase_changes values ($1, 1, $2)', [organization, later]);
    await pool.query('insert into purchase_change_readers (name, retain_from) values ($1, $2)', [
      'reader of another server',
      later,
    ]);
    await pool.query(
      `insert into purchase_change_pruning (pruned_below) values ($1)
       on conflict (is_singleton) do update set pruned_below = excluded.pruned_below`,
      [later],
    );
    await syncOnce(pool, directory);
    const { rows } = await pool.query(
      `select (select count(*) from purchase_changes where transaction_id > '800000000000') +
         (select count(*) from purchase_change_readers where retain_from > '800000000000') +
         (select count(*) from purchase_change_pruning where pruned_below > '800000000000') as left`,
    );
    expect(rows[0].left).toBe(0n);
    await expectEqual(pool, directory, organization);
  });
});

describe('a restored data folder', () => {
  it('is brought up to date, also if it is restored twice', { tags: ['slow'] }, async ({
    database: { pool },
    directory,
    organization,
  }) => {
    const data = join(directory, 'data');
    const copy = join(directory, 'copy');
    const restore = () => {
      rmSync(data, { recursive: true });
      cpSync(copy, data, { recursive: true });
    };
    await syncOnce(pool, data);
    cpSync(data, copy, { recursive: true });
    await pool.query(`${addACent} where id % 3 = 0`);
    await syncOnce(pool, data);
    restore();
    await pool.query(`${addACent} where id % 5 = 0`);
    await syncOnce(pool, data);
    await expectEqual(pool, data, organization);
    restore();
    await syncOnce(pool, data);
    await expectEqual(pool, data, organization);
  });
});
