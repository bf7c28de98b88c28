import { describe, expect } from 'vitest';
import { withSnapshot } from '../../src/postgres/pool.ts';
import { deltaContent } from '../../sync/verification/file-content.ts';
import { rereadRanges } from '../../sync/verification/reread.ts';
import { countDifferences, type Verification } from '../../sync/verification/verify.ts';
import { dictionaryDamages, repairableDamages } from '../support/damages.ts';
import {
  addPurchases,
  keepFolder,
  openPublishedShop,
  type PublishedShop,
  verifiedTest,
} from '../support/verified-shop.ts';

const { signal } = new AbortController();
const it = verifiedTest
  /** A published file of a hundred purchases. */
  .extend('undamaged', { scope: 'file' }, async ({ database, directory, shop }) => {
    const published = openPublishedShop(database, directory, shop.organizationId);
    const ids = (await addPurchases(published, 100)) as [bigint, ...bigint[]];
    await published.sync();
    return { ...published, ids, id: ids[50] as bigint };
  })
  /** The same file, which a test may damage. */
  .extend('file', ({ undamaged }, { onCleanup }) => {
    onCleanup(keepFolder(undamaged));
    return undamaged;
  });

/** Reads the purchases of some ranges from Postgres again. */
const reread = (file: Pick<PublishedShop, 'onLiveFile'>, { differences }: Verification) =>
  file.onLiveFile((live, source) => rereadRanges(live, source, differences, signal));

const rowsOf = ({ differences }: Verification) => {
  const sum = { missing: 0, surplus: 0, different: 0 };
  for (const { rows } of differences) {
    sum.missing += rows?.missing ?? Number.NaN;
    sum.surplus += rows?.surplus ?? Number.NaN;
    sum.different += rows?.different ?? Number.NaN;
  }
  return sum;
};

describe('a damaged file', () => {
  it.for(repairableDamages)(
    'is verified and repaired: $name',
    { tags: ['slow'] },
    async (damage, { file }) => {
      await file.damage(damage.statement(file.id));
      const verification = await file.verify({ partRows: 40 });
      expect(verification).toMatchObject({ state: 'differs', purchases: 100, dictionaries: [] });
      expect(rowsOf(verification)).toEqual(damage.found);
      expect(await reread(file, verification)).toBe(true);
      expect(await file.verify()).toMatchObject({ state: 'equal', purchases: 100 });
    },
  );

  it.for(dictionaryDamages)(
    'is left to a rebuild if a dictionary has $name',
    { tags: ['slow'] },
    async (damage, { file }) => {
      await file.damage(damage.statement);
      const verification = await file.verify();
      expect(verification).toMatchObject({ state: 'differs', dictionaries: [damage.found] });
      expect(await reread(file, verification)).toBe(false);
      expect(await file.verify()).toMatchObject({ state: 'differs', dictionaries: [damage.found] });
    },
  );

  it('is unchanged after a repair that was aborted', async ({ file }) => {
    await file.damage(`delete from purchase where id = ${file.id}`);
    const { differences } = await file.verify();
    const aborted = AbortSignal.abort(new Error('stopping'));
    await file.onLiveFile(async (live) => {
      const repairing = withSnapshot(file.database.pool, (source) =>
        rereadRanges(live, source, differences, aborted),
      );
      await expect(repairing).rejects.toThrow('stopping');
    });
    expect((await file.verify()).differences).toEqual(differences);
  });

  it('does not replace another file: its content is compared with Postgres first', async ({
    file,
  }) => {
    const options = { organizationId: file.organization, database: file.database.pool, signal };
    const count = () => file.onLiveFile((live) => countDifferences(deltaContent(live), options));
    expect(await count()).toBe(0);
    await file.damage(
      `update purchase set order_number = 'x' where id in (${file.ids[2]}, ${file.id})`,
    );
    expect(await count()).toBe(1);
  });
});

describe('a repair', () => {
  it('reads no other purchases than those of its ranges', async ({ file }) => {
    const ids = [file.ids[3], file.ids[70]];
    await file.damage(`delete from purchase where id in (${ids})`);
    const verification = await file.verify({ partRows: 50 });
    expect(rowsOf(verification)).toMatchObject({ missing: 2 });
    expect(await reread(file, { ...verification, differences: [] })).toBe(true);
    expect(rowsOf(await file.verify({ partRows: 50 }))).toMatchObject({ missing: 2 });
    const differences = verification.differences.slice(0, 1);
    expect(await reread(file, { ...verification, differences })).toBe(true);
    expect(rowsOf(await file.verify({ partRows: 50 }))).toMatchObject({ missing: 1 });
  });

  it('reads a purchase of two ranges once', async ({ file }) => {
    await file.damage(`update purchase set order_number = null where id = ${file.id}`);
    const verification = await file.verify();
    const twice = [...verification.differences, ...verification.differences];
    expect(await reread(file, { ...verification, differences: twice })).toBe(true);
    expect(await file.verify()).toMatchObject({ state: 'equal' });
  });

  it('is followed by later changes of the same purchases', { tags: ['slow'] }, async ({
    published,
  }) => {
    const [first, second] = await addPurchases(published, 3);
    await published.sync();
    await published.damage(`delete from purchase where id = ${first}`);
    const verification = await published.verify();
    expect(await reread(published, verification)).toBe(true);
    await published.database.pool.query(
      `update purchases set utm_term = concat(utm_term, 'x') where id = any ($1)`,
      [[first, second]],
    );
    await published.sync();
    expect(await published.verify()).toMatchObject({ state: 'equal', changedSince: 0 });
  });
});
