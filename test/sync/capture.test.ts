import { existsSync, readdirSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import {
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { awkwardLabels } from '../support/awkward-purchases.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { publishedPurchases, storedPurchases } from '../support/published.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';
import { createTestWorker } from '../support/sync.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

describe('the sync worker', () => {
  let database: TestDatabase;
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let worker: Awaited<ReturnType<typeof createTestWorker>>;
  let engine: PurchaseEngine;
  let organization: bigint;
  let customer: bigint;
  const open: pg.PoolClient[] = [];

  beforeEach(async () => {
    database = await createTestDatabase();
    directory = await temporaryDirectory();
    worker = await createTestWorker(database.pool, directory.path);
    engine = await createTestDuckDBEngine(directory.path);
    organization = await addOrganization(database.pool);
    customer = await addCustomer(database.pool, organization);
    await worker.syncAll();
  });

  afterEach(async () => {
    for (const connection of open.splice(0)) connection.release(true);
    await engine.close();
    await worker.close();
    await database.drop();
    await directory.remove();
  });

  /** A connection with a transaction open on it. */
  const begin = async (): Promise<pg.PoolClient> => {
    const connection = await database.pool.connect();
    open.push(connection);
    await connection.query('begin');
    return connection;
  };

  /** The published values, as a fresh reader sees them after one pass. */
  const published = async (of = organization): Promise<bigint[]> => {
    await worker.syncAll();
    const reader = await createTestDuckDBEngine(directory.path);
    try {
      const { result } = await reader.list(of, { filters: {}, limit: 100 });
      return result.purchases
        .map(({ purchase_value_in_cents: cents }) => cents)
        .sort((a, b) => Number(a - b));
    } finally {
      await reader.close();
    }
  };
  const add = (cents: number, on: pg.Pool | pg.PoolClient = database.pool) =>
    addPurchase(on, organization, { customer_id: customer, purchase_value_in_cents: cents });

  it('takes labels as they are, of few changes too', async () => {
    for (const label of awkwardLabels) {
      await addPurchase(database.pool, organization, { customer_id: customer, utm_source: label });
      await worker.syncAll();
    }
    expect(await publishedPurchases(directory.path, organization)).toEqual(
      await storedPurchases(database.pool, organization),
    );
  });

  it('shows what commits while an older transaction is open, and that one once it commits', async () => {
    const slow = await begin();
    await add(1, slow);
    await add(2);
    expect(await published()).toEqual([2n]);
    await add(3);
    expect(await published()).toEqual([2n, 3n]);
    await slow.query('commit');
    expect(await published()).toEqual([1n, 2n, 3n]);
    expect(await published()).toEqual([1n, 2n, 3n]);
  });

  it('leaves out what was rolled back, whole or to a savepoint', async () => {
    const rolledBack = await begin();
    await add(1, rolledBack);
    const partly = await begin();
    await add(2, partly);
    await partly.query('savepoint a');
    await add(3, partly);
    await partly.query('rollback to savepoint a');
    await partly.query('savepoint b');
    await add(4, partly);
    await partly.query('release savepoint b');
    expect(await published()).toEqual([]);
    await rolledBack.query('rollback');
    await partly.query('commit');
    expect(await published()).toEqual([2n, 4n]);
  });

  it('reads a transaction exactly once, however commits and reads are interleaved', async () => {
    const writers = await Promise.all([begin(), begin(), begin(), begin()]);
    // Assigned in one order, committed in another, read in between.
    for (const [index, writer] of writers.entries()) await add(10 + index, writer);
    for (const index of [2, 0, 3, 1]) {
      await (writers[index] as pg.PoolClient).query('commit');
      await published();
    }
    expect(await published()).toEqual([10n, 11n, 12n, 13n]);
  });

  it('takes a prepared transaction when it is committed, not when it is prepared', async () => {
    const writer = await begin();
    await add(5, writer);
    await writer.query(`prepare transaction 'later'`);
    expect(await published()).toEqual([]);
    await database.pool.query(`commit prepared 'later'`);
    expect(await published()).toEqual([5n]);
  });

  it('follows updates, deletes, and several changes of one row in one transaction', async () => {
    const kept = await add(1);
    const removed = await add(2);
    expect(await published()).toEqual([1n, 2n]);
    const writer = await begin();
    await writer.query('update purchases set purchase_value_in_cents = 10 where id = $1', [kept]);
    await writer.query('update purchases set purchase_value_in_cents = 11 where id = $1', [kept]);
    await writer.query('delete from purchases where id = $1', [removed]);
    const passing = await add(3, writer);
    await writer.query('delete from purchases where id = $1', [passing]);
    await writer.query('commit');
    expect(await published()).toEqual([11n]);
  });

  it('moves a purchase between organizations without showing it twice', async () => {
    const other = await addOrganization(database.pool);
    const moved = await add(7);
    expect(await published()).toEqual([7n]);
    await database.pool.query(
      'update purchases set organization_id = $1, customer_id = $2 where id = $3',
      [other, await addCustomer(database.pool, other), moved],
    );
    expect(await published()).toEqual([]);
    expect(await published(other)).toEqual([7n]);
  });

  it('follows a purchase whose number or customer changes', async () => {
    const id = await add(7);
    await published();
    const other = await addCustomer(database.pool, organization);
    await database.pool.query('update purchases set id = 9000, customer_id = $1 where id = $2', [
      other,
      id,
    ]);
    await worker.syncAll();
    const reader = await createTestDuckDBEngine(directory.path);
    const [before, after, stats] = await Promise.all([
      reader.get(organization, id),
      reader.get(organization, 9000n),
      reader.stats(organization, { filters: { customerId: other }, groupLimit: 1 }),
    ]);
    await reader.close();
    expect(before.result).toBeNull();
    expect(after.result?.customer_id).toBe(other);
    expect(stats.result.purchaseCount).toBe(1n);
  });

  it('reads everything anew after a TRUNCATE', async () => {
    await add(1);
    expect(await published()).toEqual([1n]);
    await database.pool.query('truncate purchases');
    expect(await published()).toEqual([]);
    await add(2);
    expect(await published()).toEqual([2n]);
  });

  it('takes the purchases of a deleted customer away', async () => {
    await add(1);
    expect(await published()).toEqual([1n]);
    await database.pool.query('delete from customers where id = $1', [customer]);
    expect(await published()).toEqual([]);
  });

  it('reads everything anew when the log was pruned beyond its watermark', async () => {
    await add(1);
    await published();
    await add(2);
    await database.pool.query('delete from purchase_changes');
    await database.pool.query(
      `insert into purchase_change_pruning values ($1, pg_current_xact_id())
       on conflict (organization_id) do update set pruned_below = excluded.pruned_below`,
      [organization],
    );
    // What is pruned every running transaction has seen; other tests' are on this server, too.
    const isBehindAll = async () => {
      const { rowCount } = await database.pool.query(
        `select from purchase_change_pruning
         where pruned_below > pg_snapshot_xmin(pg_current_snapshot())`,
      );
      return rowCount === 0;
    };
    while (!(await isBehindAll())) await sleep(20);
    expect(await published()).toEqual([1n, 2n]);
  });

  it('goes on telling other folders that it reads the log of who is quiet', async () => {
    await add(1);
    await worker.syncAll();
    await database.pool.query(
      `update purchase_change_readers set seen_at = now() - interval '25 hours'`,
    );
    await worker.syncAll();
    const { rows } = await database.pool.query(
      `select from purchase_change_readers where seen_at < now() - interval '1 hour'`,
    );
    expect(rows).toEqual([]);
  });

  it('publishes nothing new while nothing changes', async () => {
    await add(1);
    await published();
    const directoryOf = organizationDirectory(directory.path, organization);
    const first = readPublished(directoryOf);
    await published();
    expect(readPublished(directoryOf)).toEqual(first);
  });

  it('keeps a bounded number of generations however many it publishes', async () => {
    for (let count = 0; count < 8; count += 1) {
      await add(count);
      await worker.syncAll();
    }
    const files = readdirSync(organizationDirectory(directory.path, organization));
    expect(files.filter((name) => /^\d+-.*\.duckdb$/.test(name)).length).toBeLessThanOrEqual(3);
    expect(files.filter((name) => name.includes('.tmp'))).toEqual([]);
  });

  it('builds the live file anew when it is damaged, and published files that are missing', async () => {
    await add(1);
    await published();
    await worker.close();
    const directoryOf = organizationDirectory(directory.path, organization);
    await writeFile(join(directoryOf, 'live.duckdb'), 'not a database');
    await rm(join(directoryOf, readPublished(directoryOf)?.file ?? ''));
    worker = await createTestWorker(database.pool, directory.path);
    expect(await published()).toEqual([1n]);
    expect(existsSync(join(directoryOf, readPublished(directoryOf)?.file ?? ''))).toBe(true);
  });

  it('starts over when the folder meets another database', async () => {
    await add(1);
    await published();
    await worker.close();
    await database.drop();
    database = await createTestDatabase();
    organization = await addOrganization(database.pool);
    customer = await addCustomer(database.pool, organization);
    await add(2);
    worker = await createTestWorker(database.pool, directory.path);
    expect(await published()).toEqual([2n]);
  });
});
