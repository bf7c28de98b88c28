import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect } from 'vitest';
import {
  readVerificationRecord,
  writeVerificationRecord,
} from '../../sync/verification/verification-record.ts';
import { nothingFound, repair } from '../../sync/verification/verify.ts';
import { awkwardPurchase } from '../support/awkward-purchases.ts';
import { withBuilder } from '../support/held-builds.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { addCustomer, addPurchase } from '../support/shop.ts';
import {
  addVariedPurchases,
  keepFolder,
  openPublishedShop,
  verifiedTest,
} from '../support/verified-shop.ts';

const equal = { state: 'equal', reason: null, differing: 0 };

const it = verifiedTest
  /** A base with 30 purchases. The log changes five of them and deletes another. */
  .extend('changed', { scope: 'file' }, async ({ database, directory, shop }) => {
    const published = openPublishedShop(database, directory, shop.organizationId);
    const ids = await addVariedPurchases(published, 30);
    await published.sync();
    const id = ids[10] as bigint;
    const { pool } = database;
    await pool.query(`update purchases set order_number = 'new' where id between $1 and $1 + 4`, [
      id,
    ]);
    await pool.query('delete from purchases where id = $1', [ids[20]]);
    await published.sync();
    return { ...published, id };
  });

describe('a verification of an undamaged file', { tags: ['slow'] }, () => {
  it('reports equality for unusual values of every column, in parts of any size', async ({
    published,
  }) => {
    const { pool } = published.database;
    const customers = [await addCustomer(pool, published.organization)];
    const purchases = fc.sample(awkwardPurchase(customers), { numRuns: 200, seed: 7 });
    for (const purchase of purchases) await addPurchase(pool, published.organization, purchase);
    await published.sync();
    for (const rangeRows of [1_000, 30]) {
      expect(await published.verify({ rangeRows })).toMatchObject({ ...equal, purchases: 200 });
    }
  });

  it('reports that an organization has no published file, and equality without purchases', async ({
    published,
  }) => {
    expect(await published.verify()).toMatchObject({ state: 'not published' });
    await published.sync();
    const verification = await published.verify();
    expect(verification).toMatchObject({ ...equal, purchases: 0, changedSince: 0 });
  });

  it('excludes purchases that changed after the published snapshot', async ({
    published,
    otherShop: { organizationId: other },
  }) => {
    const { pool } = published.database;
    const ids = await addVariedPurchases(published, 40);
    await published.sync([published.organization, other]);
    await pool.query('update purchases set purchase_value_in_cents = 1 where id = $1', [ids[1]]);
    await pool.query('update purchases set created_at = now() where id = $1', [ids[2]]);
    await pool.query('delete from purchases where id = $1', [ids[3]]);
    await pool.query('update purchases set organization_id = $1, customer_id = $2 where id = $3', [
      other,
      await addCustomer(pool, other),
      ids[4],
    ]);
    await pool.query('update purchases set id = 9000 where id = $1', [ids[5]]);
    // Another purchase with the id of a deleted one.
    await pool.query('delete from purchases where id = $1', [ids[6]]);
    await pool.query(
      `insert into purchases (id, organization_id, customer_id, purchase_value_in_cents)
       select $1, organization_id, customer_id, 7 from purchases where id = $2`,
      [ids[6], ids[7]],
    );
    await addVariedPurchases(published, 2);
    // Six old ids, the new id of one of these, and two new purchases.
    const changedSince = 9;
    expect(await published.verify()).toMatchObject({ ...equal, purchases: 34, changedSince });
    expect(await published.verify({ rangeRows: 12 })).toMatchObject({ ...equal, purchases: 34 });
    expect(await published.verify({ organizationId: other })).toMatchObject({ state: 'equal' });
    await published.damage(`delete from purchase where id = ${ids[8]}`);
    expect(await published.verify()).toMatchObject({ differing: 1, examples: [ids[8]] });
  });

  it('waits for the next generation if the change log is incomplete', async ({ published }) => {
    await addVariedPurchases(published, 10);
    await published.sync();
    await published.database.pool.query('truncate purchases');
    expect(await published.verify()).toMatchObject({
      state: 'not comparable',
      reason: expect.stringMatching(/the table purchases was replaced or rewritten$/),
    });
    const later = published.verify({ maxWaitMs: 60_000 });
    await addVariedPurchases(published, 3);
    await published.sync();
    expect(await later).toMatchObject({ ...equal, purchases: 3 });
  });

  it('does not compare a file with another database', async ({ published }) => {
    await published.sync();
    const other = await createTestDatabase();
    expect(await published.verify({ database: other.pool })).toMatchObject({
      state: 'not comparable',
      reason: expect.stringMatching(/this is another database/),
    });
    await other.drop();
  });

  it('reports equality while clients write and a worker publishes', async ({
    published,
    otherShop: { organizationId: other },
  }) => {
    const { pool } = published.database;
    await addVariedPurchases(published, 120);
    await addCustomer(pool, other);
    await published.sync([published.organization, other]);
    const stop = new AbortController();
    const following = published.follow(stop.signal);
    let transactions = 0;
    const writers = [1, 2].map(async () => {
      for (; !stop.signal.aborted; transactions += 1) {
        await pool.query(writeOfRound(transactions), [published.organization, other]);
        await sleep(5);
      }
    });
    const generations = new Set<string | null>();
    while (generations.size < 10) {
      for (const organizationId of [published.organization, other]) {
        const options = { organizationId, rangeRows: 40, maxWaitMs: 30_000 };
        const verification = await published.verify(options);
        expect(verification).toMatchObject(equal);
        generations.add(verification.generation);
      }
    }
    stop.abort();
    await Promise.all([...writers, following]);
    await published.sync();
    const { rows } = await pool.query('select count(*) from purchases where organization_id = $1', [
      published.organization,
    ]);
    const purchases = Number(rows[0].count);
    expect(await published.verify()).toMatchObject({ ...equal, purchases, changedSince: 0 });
  });
});

describe('a verification of a base and a log', () => {
  it.for([
    {
      log: 'has another value for a changed purchase',
      damaged: (record: string) => record.replace('\tnew\t', '\told\t'),
      differing: (id: bigint) => id,
    },
    {
      log: 'deletes a purchase that Postgres has',
      damaged: (_: string, id: bigint) => `d\t${id}`,
      differing: (id: bigint) => id,
    },
    {
      log: 'adds a purchase that Postgres does not have',
      damaged: (record: string, id: bigint) => record.replace(`u\t${id}\t`, 'u\t900000\t'),
      differing: () => 900_000n,
    },
  ])(
    'reports a difference if the log $log',
    async ({ damaged, differing }, { changed, onTestFinished }) => {
      onTestFinished(keepFolder(changed));
      const records = readFileSync(changed.logPath(), 'utf8').split('\n');
      const record = records.find((line) => line.startsWith(`u\t${changed.id}\t`)) ?? '';
      expect(record).toContain('\tnew\t');
      changed.appendToLog(damaged(record, changed.id));
      expect(await changed.verify()).toMatchObject({
        state: 'differs',
        differing: 1,
        examples: [differing(changed.id)],
      });
    },
  );

  it('reports equality if only a row of the base is damaged that the log supersedes', {
    tags: ['slow'],
  }, async ({ published }) => {
    const [id] = await addVariedPurchases(published, 3);
    await published.sync();
    await published.database.pool.query(`update purchases set order_number = 'new' where id = $1`, [
      id,
    ]);
    await published.sync();
    await published.damage(`update purchase set purchase_value_in_cents = 7 where id = ${id}`);
    expect(await published.verify()).toMatchObject({ ...equal, purchases: 3 });
  });
});

describe('a difference that a verification has found', () => {
  const differs = { ...nothingFound, state: 'differs', reason: null, differing: 1 } as const;

  it('is recorded while rebuilds fail, and no longer after one has succeeded', async ({
    published: { directory, organization, sync, withWorker },
  }) => {
    await sync();
    await writeVerificationRecord(directory, organization, differs, null);
    const recorded = () => readVerificationRecord(directory, organization)?.state;
    let isDiskFull = true;
    await withWorker(
      async (worker) => {
        await expect(worker.rebuild(organization, true)).rejects.toThrow('ENOSPC');
        expect(recorded()).toBe('differs');
        isDiskFull = false;
        await worker.rebuild(organization, true);
        expect(recorded()).toBeUndefined();
      },
      {
        replace: withBuilder((builder) => ({
          load: async (...args) => {
            if (isDiskFull) throw new Error('ENOSPC');
            return builder.load(...args);
          },
        })),
      },
    );
  });

  it('is not the outcome of a repair whose second verification fails', async () => {
    const repaired = await repair(
      differs,
      async () => {},
      () => Promise.reject(new Error('no response')),
    );
    expect(repaired).toMatchObject({
      outcome: { state: 'not comparable', differing: 0 },
      failure: 'no response',
    });
  });
});

/** A write to some purchases of the organizations $1 and $2. The round decides which. */
function writeOfRound(round: number): string {
  const some = `select id from purchases where organization_id in ($1, $2)
    order by md5(id || ' ${round}') limit ${1 + (round % 4)} for update skip locked`;
  const writes = [
    `update purchases set purchase_value_in_cents = purchase_value_in_cents + 1 where id in (${some})`,
    `update purchases set created_at = created_at + interval '1 day' * ${(round % 41) - 20} where id in (${some})`,
    `update purchases set organization_id = customers.organization_id, customer_id = customers.id
     from customers
     where customers.organization_id = $1::bigint + $2::bigint - purchases.organization_id
       and purchases.id in (${some})`,
    `with deleted as (delete from purchases where id in (${some}) returning *)
     insert into purchases (organization_id, customer_id, purchase_value_in_cents, utm_source)
     select organization_id, customer_id, purchase_value_in_cents, 'round ${round}' from deleted`,
  ];
  return writes[round % writes.length] as string;
}
