import { readFile, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Verification } from '../../sync/verification/verify.ts';
import { awkwardPurchase } from '../support/awkward-purchases.ts';
import { lastingDamages, repairableDamages } from '../support/damages.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';
import { addPurchases, createVerifiedShop, type VerifiedShop } from '../support/verified-shop.ts';

const rowsOf = ({ differences }: Verification) => {
  const sum = { missing: 0, surplus: 0, different: 0 };
  for (const { rows } of differences) {
    sum.missing += rows?.missing ?? Number.NaN;
    sum.surplus += rows?.surplus ?? Number.NaN;
    sum.different += rows?.different ?? Number.NaN;
  }
  return sum;
};

describe('verifying what is published', () => {
  let shop: VerifiedShop;
  beforeEach(async () => {
    shop = await createVerifiedShop();
  });
  afterEach(() => shop.close());

  const equal = { state: 'equal', reason: null, differences: [], dictionaries: [] };

  it('finds it equal, whatever the purchases hold, and in parts of any size', async () => {
    const { pool } = shop.database;
    const customers = [await addCustomer(pool, shop.organization)];
    const purchases = fc.sample(awkwardPurchase(customers), { numRuns: 200, seed: 7 });
    for (const purchase of purchases) await addPurchase(pool, shop.organization, purchase);
    await shop.sync();
    for (const partRows of [1_000, 50, 3]) {
      expect(await shop.verify({ partRows })).toMatchObject({ ...equal, purchases: 200 });
    }
  });

  it('finds it equal where there are no purchases', async () => {
    await shop.sync();
    expect(await shop.verify()).toMatchObject({ ...equal, purchases: 0, changedSince: 0 });
  });

  it('narrows a difference down to the purchases concerned', async () => {
    const ids = await addPurchases(shop, 300);
    await shop.sync();
    const [first, second] = [ids[17], ids[201]] as [bigint, bigint];
    await shop.damage(`delete from purchase where id in (${first}, ${second})`);
    const { differences } = await shop.verify({ partRows: 150, singleRows: 4 });
    expect(differences).toMatchObject([
      { idFrom: first, idUntil: first, rows: { missing: 1, examples: [first] } },
      { idFrom: second, idUntil: second, rows: { missing: 1, examples: [second] } },
    ]);
    for (const { createdSince, createdUntil } of differences) {
      expect(createdSince).toBe(createdUntil);
    }
  });

  it('narrows by number where all purchases were created at once', async () => {
    const ids = await addPurchases(shop, 60);
    await shop.database.pool.query(`update purchases set created_at = '2025-06-01'`);
    await shop.sync();
    const id = ids[40] as bigint;
    await shop.damage(`update purchase set order_number = 'x' where id = ${id}`);
    const { differences } = await shop.verify({ partRows: 20, singleRows: 2 });
    expect(differences).toMatchObject([{ idFrom: id, idUntil: id, rows: { different: 1 } }]);
  });

  it('says of damage that is everywhere what there is of it, once', async () => {
    await addPurchases(shop, 200);
    await shop.sync();
    await shop.damage('update purchase set purchase_value_in_cents = 0');
    const { differences } = await shop.verify({ partRows: 50, singleRows: 10 });
    expect(differences).toMatchObject([{ publishedCount: 200, postgresCount: 200, rows: null }]);
  });

  it('takes no change that is not published yet for a difference', async () => {
    const { pool } = shop.database;
    const ids = await addPurchases(shop, 40);
    const other = await addOrganization(pool);
    await shop.sync();
    await pool.query('update purchases set purchase_value_in_cents = 1 where id = $1', [ids[1]]);
    await pool.query('update purchases set created_at = now() where id = $1', [ids[2]]);
    await pool.query('delete from purchases where id = $1', [ids[3]]);
    await pool.query('update purchases set organization_id = $1, customer_id = $2 where id = $3', [
      other,
      await addCustomer(pool, other),
      ids[4],
    ]);
    await pool.query('update purchases set id = 9000 where id = $1', [ids[5]]);
    // Gone and come back under the same number, with something else in it.
    await pool.query(
      `with gone as (delete from purchases where id = $1 returning *)
       select from gone`,
      [ids[6]],
    );
    await pool.query(
      `insert into purchases (id, organization_id, customer_id, purchase_value_in_cents)
       select $1, organization_id, customer_id, 7 from purchases where id = $2`,
      [ids[6], ids[7]],
    );
    await addPurchases(shop, 2);
    for (const partRows of [1_000, 5]) {
      const verification = await shop.verify({ partRows });
      expect(verification).toMatchObject({ ...equal, purchases: 34 });
    }
    // Seven numbers of before, one that a purchase took, and two new ones.
    expect((await shop.verify()).changedSince).toBe(9);
    const damaged = ids[8] as bigint;
    await shop.damage(`delete from purchase where id = ${damaged}`);
    expect(rowsOf(await shop.verify())).toEqual({ missing: 1, surplus: 0, different: 0 });
    expect(await shop.verify({ organizationId: other })).toMatchObject({ state: 'equal' });
  });

  it('says so where the change log does not tell what happened, and compares again when it does', async () => {
    await addPurchases(shop, 10);
    await shop.sync();
    await shop.database.pool.query('truncate purchases');
    expect(await shop.verify()).toMatchObject({
      state: 'not comparable',
      reason: expect.stringMatching(/the table purchases was replaced or rewritten$/),
    });
    const later = shop.verify({ patienceMs: 60_000 });
    await addPurchases(shop, 3);
    await shop.sync();
    expect(await later).toMatchObject({ ...equal, purchases: 3 });
  });

  it('says so where nothing is published, and where another database is', async () => {
    expect(await shop.verify()).toMatchObject({ state: 'not published' });
    await addPurchases(shop, 3);
    await shop.sync();
    const other = await createTestDatabase();
    expect(await shop.verify({ database: other.pool })).toMatchObject({
      state: 'not comparable',
      reason: expect.stringMatching(/this is another database/),
    });
    await other.drop();
  });

  it('never takes the work of writers and of a worker for a difference', {
    timeout: 180_000,
  }, async () => {
    const { pool } = shop.database;
    await addPurchases(shop, 300);
    const other = await addOrganization(pool);
    await addCustomer(pool, other);
    await shop.sync();
    const stop = new AbortController();
    const following = shop.follow(stop.signal);
    let transactions = 0;
    const writers = [1, 2].map(async () => {
      for (; !stop.signal.aborted; transactions += 1) {
        await pool.query(anyWrite(transactions), [shop.organization, other]);
        await sleep(5);
      }
    });
    const generations = new Set<string | null>();
    while (generations.size < 15) {
      for (const organizationId of [shop.organization, other]) {
        const verification = await shop.verify({
          organizationId,
          partRows: 40,
          patienceMs: 30_000,
        });
        expect(verification).toMatchObject(equal);
        generations.add(verification.generation);
      }
    }
    stop.abort();
    await Promise.all([...writers, following]);
    await shop.sync();
    const { rows } = await pool.query('select count(*) from purchases where organization_id = $1', [
      shop.organization,
    ]);
    const purchases = Number(rows[0].count);
    expect(await shop.verify()).toMatchObject({ ...equal, purchases, changedSince: 0 });
  });
});

describe('verifying a hundred purchases', () => {
  let shop: VerifiedShop;
  let ids: bigint[];
  let undamaged: Buffer;
  beforeAll(async () => {
    shop = await createVerifiedShop();
    ids = await addPurchases(shop, 100);
    await shop.sync();
    undamaged = await readFile(shop.basePath());
  });
  afterEach(() => writeFile(shop.basePath(), undamaged));
  afterAll(() => shop.close());

  it.each(repairableDamages)('finds $name', async ({ statement, found }) => {
    await shop.damage(statement(ids[50] as bigint));
    const [inOnePart, inParts] = [await shop.verify(), await shop.verify({ partRows: 7 })];
    for (const verification of [inOnePart, inParts]) {
      expect(verification).toMatchObject({ state: 'differs', purchases: 100, dictionaries: [] });
    }
    expect(rowsOf(inOnePart)).toEqual(found);
  });

  it('finds a purchase in another month both where it is and where it should be', async () => {
    const id = ids[50] as bigint;
    await shop.damage(
      `update purchase set created_at = created_at + interval 3 month where id = ${id}`,
    );
    const { differences } = await shop.verify({ partRows: 7 });
    expect(differences).toMatchObject([
      { idFrom: id, idUntil: id, rows: { missing: 1, surplus: 0, different: 0 } },
      { idFrom: id, idUntil: id, rows: { missing: 0, surplus: 1, different: 0 } },
    ]);
  });

  it.each(lastingDamages)('finds a dictionary with $name', async ({ statement, found }) => {
    await shop.damage(statement);
    expect(await shop.verify()).toMatchObject({ state: 'differs', dictionaries: [found] });
  });
});

describe('verifying purchases of which a delta has some', () => {
  let shop: VerifiedShop;
  let id: bigint;
  let undamaged: Buffer;
  beforeAll(async () => {
    shop = await createVerifiedShop();
    const ids = await addPurchases(shop, 30);
    await shop.sync();
    id = ids[10] as bigint;
    await shop.database.pool.query(
      `update purchases set order_number = 'new' where id between $1 and $1 + 4`,
      [id],
    );
    await shop.database.pool.query('delete from purchases where id = $1', [ids[20]]);
    await shop.sync();
    undamaged = await readFile(shop.deltaPath());
  });
  afterEach(() => writeFile(shop.deltaPath(), undamaged));
  afterAll(() => shop.close());

  it('finds nothing where nothing is damaged', async () => {
    expect(await shop.verify()).toMatchObject({ state: 'equal', purchases: 29 });
  });

  const ofAdded = [
    ['another value', `update change set order_number = 'x' where sign > 0 and id =`, 'different'],
    ['no row', 'delete from change where sign > 0 and id =', 'missing'],
    ['a second row', 'insert into change from change where sign > 0 and id =', 'surplus'],
  ] as const;
  it.each(ofAdded)('finds that the delta has %s of a purchase', async (_, statement, kind) => {
    await shop.damage(`${statement} ${id}`, shop.deltaPath());
    const none = { missing: 0, surplus: 0, different: 0 };
    expect(await shop.verify()).toMatchObject({
      state: 'differs',
      differences: [{ idFrom: id, idUntil: id, rows: { ...none, [kind]: 1 } }],
    });
  });

  const ofSuperseded = [
    ['another value', 'update change set purchase_value_in_cents = 1 where sign < 0 and id ='],
    ['a second row', 'insert into change from change where sign < 0 and id ='],
    [
      'a row that the base lacks',
      'insert into change by name select -1 as sign, * exclude (id, sign), 10 ** 9 as id from change where sign < 0 and id =',
    ],
  ] as const;
  it.each(ofSuperseded)('finds that the delta supersedes %s', async (_, statement) => {
    await shop.damage(`${statement} ${id}`, shop.deltaPath());
    expect(await shop.verify()).toMatchObject({
      state: 'unreadable',
      reason: expect.stringMatching(/^[12] superseded rows differ from the base$/),
    });
  });
});

/** One of the things that writers do, to some of the purchases of two organizations. */
function anyWrite(round: number): string {
  const some = `select id from purchases where organization_id in ($1, $2)
    order by random() limit ${1 + (round % 4)} for update skip locked`;
  const writes = [
    `update purchases set purchase_value_in_cents = purchase_value_in_cents + 1 where id in (${some})`,
    `update purchases set created_at = created_at + interval '40 days' * (random() - 0.5) where id in (${some})`,
    `update purchases set organization_id = customers.organization_id, customer_id = customers.id
     from customers
     where customers.organization_id = $1::bigint + $2::bigint - purchases.organization_id
       and purchases.id in (${some})`,
    `with gone as (delete from purchases where id in (${some}) returning *)
     insert into purchases (organization_id, customer_id, purchase_value_in_cents, utm_source)
     select organization_id, customer_id, purchase_value_in_cents, 'round ${round}' from gone`,
  ];
  return writes[round % writes.length] as string;
}
