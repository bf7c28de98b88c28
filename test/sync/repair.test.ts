import { mkdirSync, readFileSync, rmdirSync } from 'node:fs';
import { describe, expect } from 'vitest';
import { draftSuffix } from '../../src/process/replace-file.ts';
import { tickPath } from '../../src/purchase-store/published-tick.ts';
import { everyOrganization } from '../../src/purchase-store/shard.ts';
import { unfinishedBasePath } from '../../sync/builds/base-file.ts';
import { repair } from '../../sync/verification/repair.ts';
import type { Verification } from '../../sync/verification/verify.ts';
import { dictionaryDamages, repairableDamages } from '../support/damages.ts';
import {
  addPurchases,
  keepFolder,
  openPublishedShop,
  type PublishedShop,
  verifiedTest,
} from '../support/verified-shop.ts';

const it = verifiedTest
  /** A published base of a hundred purchases. */
  .extend('undamaged', { scope: 'file' }, async ({ database, directory, shop }) => {
    const published = openPublishedShop(database, directory, shop.organizationId);
    const ids = (await addPurchases(published, 100)) as [bigint, ...bigint[]];
    await published.sync();
    return { ...published, ids, id: ids[50] as bigint };
  })
  /** The same files, which a test may damage. */
  .extend('files', ({ undamaged }, { onCleanup }) => {
    onCleanup(keepFolder(undamaged));
    return undamaged;
  });

/** Makes a worker read purchases again. True if the log stays, which a rebuild replaces. */
async function reread(
  { organization, withWorker, current }: PublishedShop,
  ids: readonly bigint[],
): Promise<boolean> {
  const { log } = current();
  await withWorker((worker) => worker.repairsFor(organization).reread(ids));
  return current().log === log;
}

const idsOf = ({ differences }: Verification): readonly bigint[] =>
  differences.flatMap(({ ids }) => ids ?? []);

const repairFound = (files: PublishedShop, found: Verification) =>
  files.withWorker((worker) =>
    repair(found, worker.repairsFor(files.organization), () => files.verify()),
  );

/** The records that were appended to the log since it had `bytes`. */
const recordsSince = (path: string, bytes: number): string[] =>
  readFileSync(path)
    .subarray(bytes)
    .toString()
    .split('\n')
    .filter((line) => /^[ud]\t/.test(line));

describe('a damaged base', { tags: ['slow'] }, () => {
  it.for(repairableDamages)('is verified and repaired: $name', async (damage, { files }) => {
    await files.damage(damage.statement(files.id));
    const verification = await files.verify({ partRows: 40 });
    expect(verification).toMatchObject({ state: 'differs', purchases: 100 });
    expect(idsOf(verification)).toHaveLength(damage.found);
    const outcome = { state: 'equal', purchases: 100 };
    expect(await repairFound(files, verification)).toMatchObject({
      repairs: damage.breaksOrder ? ['reread', 'rebuild'] : ['reread'],
      outcome,
    });
  });

  it.for(dictionaryDamages)('is rebuilt if a dictionary has $name', async (damage, { files }) => {
    await files.damage(damage.statement);
    const verification = await files.verify();
    expect(verification).toMatchObject({
      state: 'unreadable',
      reason: `the dictionaries of ${damage.dictionary} are damaged`,
    });
    const outcome = { state: 'equal', purchases: 100 };
    expect(await repairFound(files, verification)).toMatchObject({
      repairs: ['rebuild'],
      outcome,
    });
  });

  it('is rebuilt if the purchases that differ take more than a tick may have', async ({
    published,
  }) => {
    await published.database.pool.query(
      `with customer as (
         insert into customers (organization_id) values ($1) returning organization_id, id
       )
       insert into purchases (organization_id, customer_id, purchase_value_in_cents, coupons)
       select organization_id, id, n,
         jsonb_build_array(jsonb_build_object('code', n || repeat('x', 65000)))
       from customer, generate_series(1, 300) as n`,
      [published.organization],
    );
    await published.sync();
    await published.damage('delete from purchase');
    expect(await reread(published, idsOf(await published.verify()))).toBe(false);
    expect(await published.verify()).toMatchObject({ state: 'equal', purchases: 300 });
  });
});

describe('a repair', () => {
  it('reads no purchase but those that differ', async ({ files }) => {
    await files.damage(`update purchase set order_number = null where id = ${files.id}`);
    const found = await files.verify();
    const path = files.logPath();
    const { length } = readFileSync(path);
    expect(await repairFound(files, found)).toMatchObject({ repairs: ['reread'] });
    expect(recordsSince(path, length)).toEqual([
      expect.stringMatching(new RegExp(`^u\\t${files.id}\\t`)),
    ]);
    expect(await files.verify()).toMatchObject({ state: 'equal' });
  });

  it('includes the changes since the last tick', { tags: ['slow'] }, async ({ published }) => {
    const [first, second] = await addPurchases(published, 3);
    await published.sync();
    await published.damage(`update purchase set order_number = 'x' where id = ${first}`);
    const ids = idsOf(await published.verify());
    const { pool } = published.database;
    await published.withWorker(async (worker) => {
      await worker.once([published.organization]);
      await pool.query(`update purchases set utm_term = 'x' where id = any ($1)`, [
        [first, second],
      ]);
      await worker.repairsFor(published.organization).reread(ids);
    });
    expect(await published.verify()).toMatchObject({ state: 'equal', changedSince: 0 });
  });

  it('is followed by later changes of the same purchases', { tags: ['slow'] }, async ({
    published,
  }) => {
    const [first, second] = await addPurchases(published, 3);
    await published.sync();
    await published.damage(`update purchase set order_number = 'x' where id = ${first}`);
    expect(await reread(published, idsOf(await published.verify()))).toBe(true);
    await published.database.pool.query(
      `update purchases set utm_term = concat(utm_term, 'x') where id = any ($1)`,
      [[first, second]],
    );
    await published.sync();
    expect(await published.verify()).toMatchObject({ state: 'equal', changedSince: 0 });
  });

  it('changes nothing if it cannot be published, and can be repeated', async ({ files }) => {
    await files.damage(`update purchase set order_number = 'x' where id = ${files.id}`);
    const found = await files.verify();
    const obstacle = `${tickPath(files.directory, everyOrganization)}${draftSuffix}`;
    await files.withWorker(async (worker) => {
      const { reread } = worker.repairsFor(files.organization);
      await worker.once([files.organization]);
      mkdirSync(obstacle);
      await expect(reread(idsOf(found))).rejects.toThrow('EISDIR');
      rmdirSync(obstacle);
      expect((await files.verify()).differences).toEqual(found.differences);
      await worker.once([files.organization]);
      expect((await files.verify()).differences).toEqual(found.differences);
      await reread(idsOf(found));
    });
    expect(await files.verify()).toMatchObject({ state: 'equal' });
  });
});

describe('a load', () => {
  const interrupted = it.extend('interrupted', async ({ files }) => {
    let stop = () => {};
    const stopped = new Promise<void>((resolve) => {
      stop = resolve;
    });
    const options = {
      loadChunkRows: 20,
      onReport: (_id: bigint, { progress }: { progress: { loaded: number } | null }) => {
        if (progress !== null && progress.loaded >= 60) stop();
      },
    };
    await files.withWorker(async (worker) => {
      const rebuilding = worker.repairsFor(files.organization).rebuild();
      rebuilding.catch(() => {});
      await stopped;
      await worker.close();
      await expect(rebuilding).rejects.toThrow(/is stopping|was aborted/);
    }, options);
    return files;
  });

  interrupted(
    'begins again if the purchases that were loaded cannot be read',
    { tags: ['slow'] },
    async ({ interrupted: files }) => {
      const statement = 'alter table purchase rename column customer_key to former';
      await files.damage(statement, unfinishedBasePath(files.folder));
      const before = files.current();
      await files.withWorker((worker) => worker.repairsFor(files.organization).rebuild());
      expect(files.current()).not.toEqual(before);
      expect(await files.verify()).toMatchObject({ state: 'equal', purchases: 100 });
    },
  );

  interrupted(
    'replaces no files if the new ones differ from Postgres',
    { tags: ['slow'] },
    async ({ interrupted: files }) => {
      const before = files.current();
      await files.damage(
        `update purchase set order_number = 'x' where id = ${files.ids[2]}`,
        unfinishedBasePath(files.folder),
      );
      await files.withWorker(async (worker) => {
        await expect(worker.repairsFor(files.organization).rebuild()).rejects.toThrow(
          'what was loaded differs from Postgres in 1 ranges',
        );
      });
      expect(files.current()).toEqual(before);
      await files.sync();
      expect(await files.verify()).toMatchObject({ state: 'equal', purchases: 100 });
    },
  );
});
