import { describe, expect } from 'vitest';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { findCredential } from '../../src/postgres/keys/api-keys.ts';
import { secretHash } from '../../src/postgres/keys/key-secret.ts';
import { organizationDirectory } from '../../src/purchase-store/format/current.ts';
import { isolatedTest } from '../support/fixtures.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { publishedFiles } from '../support/published-files.ts';
import { addCustomer, addKey, addOrganization, addPurchases } from '../support/shop.ts';
import { syncOnce } from '../support/sync.ts';

/** `organization` has 50 published purchases. */
const it = isolatedTest.extend(
  'organization',
  async ({ database, directory, shop, customerId }) => {
    await addPurchases(database.pool, shop.organizationId, customerId, 50);
    await syncOnce(database.pool, directory);
    return shop.organizationId;
  },
);

describe('another database', () => {
  it('with the same organization does not use its published files', { tags: ['slow'] }, async ({
    database,
    organization,
    engine,
  }) => {
    const other = await createTestDatabase();
    const { rows } = await database.pool.query('select id, identity, name from organizations');
    const { id, identity, name } = rows[0];
    await other.pool.query('insert into organizations (id, identity, name) values ($1, $2, $3)', [
      id,
      identity,
      name,
    ]);
    const sourceOf = async (pool: Database): Promise<string> => {
      const { secret } = await addKey(pool, organization);
      return (await findCredential(pool, secretHash(secret) as Buffer))?.source ?? '';
    };
    const [own, foreign] = [await sourceOf(database.pool), await sourceOf(other.pool)];
    expect(foreign).not.toBe(own);
    expect(await engine.forSource(foreign).freshness(organization)).toBeNull();
    expect(await engine.forSource(own).freshness(organization)).not.toBeNull();
    await other.drop();
  });

  it('of the same name is read by a running API, which shows nothing of the former', {
    tags: ['slow'],
  }, async ({ database, directory, organization: former, startApi }) => {
    const api = await startApi();
    const stats = async (secret: string) => {
      const response = await api.get('/v1/purchases/stats', secret);
      return [response.statusCode, response.json().purchase_count];
    };
    const { secret: formerSecret } = await addKey(database.pool, former);
    expect(await stats(formerSecret)).toEqual([200, 50]);

    database.pool.on('error', () => {});
    await database.recreate();
    const organization = await addOrganization(database.pool, 'New');
    expect(organization).toBe(former);
    const { secret } = await addKey(database.pool, organization);
    expect(await stats(secret)).toEqual([200, 0]);
    expect((await stats(formerSecret))[0]).toBe(401);

    const customer = await addCustomer(database.pool, organization);
    await addPurchases(database.pool, organization, customer, 3);
    await syncOnce(database.pool, directory);
    const inPostgres = (await api.purchases.freshness(organization)) as bigint;
    expect(await stats(secret)).toEqual([200, 3]);
    // The file lacks this purchase: the response is no longer from Postgres.
    await addPurchases(database.pool, organization, customer, 1);
    await api.purchases.waitUntilFresh(organization, inPostgres, AbortSignal.timeout(120_000));
    expect(await stats(secret)).toEqual([200, 3]);
  });
});

describe('another organization with the id', () => {
  it('does not get the published purchases of the former by a compaction', async ({
    database: { pool },
    directory,
    organization,
    openWorker,
  }) => {
    await pool.query('update purchases set purchase_value_in_cents = 1');
    await syncOnce(pool, directory);
    const folder = organizationDirectory(directory, organization);
    const before = publishedFiles(folder);
    await pool.query('update organizations set identity = gen_random_uuid()');
    await pool.query('delete from purchases');
    const worker = await openWorker({
      maxLogRecords: 10,
      replace: ({ builder }) => ({
        builder: {
          ...builder,
          async load() {
            throw new Error('the load fails');
          },
        },
      }),
    });
    await expect(worker.syncAll()).rejects.toThrow('the load fails');
    expect(publishedFiles(folder)).toEqual(before);
  });
});
