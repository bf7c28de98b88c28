import { cpSync, rmSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { withSnapshot } from '../../src/postgres/pool.ts';
import type { DeltaFile } from '../../sync/files/delta-file.ts';
import type { PurchaseRange } from '../../sync/verification/purchase-range.ts';
import { rereadRanges } from '../../sync/verification/reread.ts';
import { countDifferences } from '../../sync/verification/verify.ts';
import { lastingDamages, repairableDamages } from '../support/damages.ts';
import { addPurchases, createVerifiedShop, type VerifiedShop } from '../support/verified-shop.ts';

describe('reading ranges of purchases anew', () => {
  let shop: VerifiedShop;
  let ids: bigint[];
  let undamaged: string;
  beforeAll(async () => {
    shop = await createVerifiedShop();
    ids = await addPurchases(shop, 100);
    await shop.sync();
    undamaged = `${shop.directory}-undamaged`;
    keepUndamaged();
  });
  afterEach(() => {
    rmSync(shop.directory, { recursive: true });
    cpSync(undamaged, shop.directory, { recursive: true });
  });
  afterAll(async () => {
    rmSync(undamaged, { recursive: true });
    await shop.close();
  });

  const keepUndamaged = () => {
    rmSync(undamaged, { recursive: true, force: true });
    cpSync(shop.directory, undamaged, { recursive: true });
  };
  const { signal } = new AbortController();
  const reread = (ranges: readonly PurchaseRange[]) =>
    shop.onLiveFile((live, source) => rereadRanges(live, source, ranges, signal));

  const cases = repairableDamages.map((damage, index) => ({
    ...damage,
    partRows: index % 2 === 0 ? 1_000 : 7,
  }));
  it.each(cases)('repairs $name, found in parts of $partRows', async ({ statement, partRows }) => {
    await shop.damage(statement(ids[50] as bigint));
    const { state, differences } = await shop.verify({ partRows, singleRows: 20 });
    expect(state).toBe('differs');
    expect(await reread(differences)).toMatchObject({ repairable: true });
    expect(await shop.verify()).toMatchObject({ state: 'equal', purchases: 100 });
  });

  it('reads no more than the purchases of the ranges', async () => {
    await shop.damage(`delete from purchase where id in (${ids[3]}, ${ids[70]})`);
    const { differences } = await shop.verify({ partRows: 10 });
    expect(await reread(differences)).toEqual({ repairable: true, purchases: 2 });
    expect(await reread([])).toEqual({ repairable: true, purchases: 0 });
  });

  it('reads a purchase that is in several ranges once', async () => {
    await shop.damage(`update purchase set order_number = null where id = ${ids[9]}`);
    const { differences } = await shop.verify();
    expect(await reread([...differences, ...differences])).toEqual({
      repairable: true,
      purchases: 1,
    });
    expect(await shop.verify()).toMatchObject({ state: 'equal' });
  });

  it.each(lastingDamages)('leaves a dictionary with $name to a rebuild', async (damage) => {
    await shop.damage(damage.statement);
    const { differences } = await shop.verify();
    expect(await reread(differences)).toEqual({ repairable: false, dictionaries: [damage.found] });
    expect(await shop.verify()).toMatchObject({ state: 'differs', dictionaries: [damage.found] });
  });

  it('leaves everything as it was when it is told to stop', async () => {
    await shop.damage(`delete from purchase where id = ${ids[20]}`);
    const { differences } = await shop.verify();
    const aborted = AbortSignal.abort(new Error('stopping'));
    await shop.onLiveFile(async (live: DeltaFile) => {
      const stopped = withSnapshot(shop.database.pool, (source) =>
        rereadRanges(live, source, differences, aborted),
      );
      await expect(stopped).rejects.toThrow('stopping');
    });
    expect((await shop.verify()).differences).toEqual(differences);
  });

  it('goes on following changes after a repair', async () => {
    await shop.damage(`delete from purchase where id = ${ids[20]}`);
    const { differences } = await shop.verify();
    await reread(differences);
    await shop.database.pool.query(
      `update purchases set utm_term = 'new' where id in (${ids[20]}, ${ids[21]})`,
    );
    await shop.sync();
    expect(await shop.verify()).toMatchObject({ state: 'equal', changedSince: 0 });
    keepUndamaged();
  });

  it('refuses where the file does not show all that Postgres has', async () => {
    await shop.damage(`delete from purchase where id = ${ids[20]}`);
    const { differences } = await shop.verify();
    await shop.database.pool.query(`update purchases set utm_term = 'x' where id = ${ids[1]}`);
    await expect(reread(differences)).rejects.toThrow('the live file lacks changes');
  });
});

describe('a file that is to take the place of another', () => {
  it('is compared with Postgres by content first', async () => {
    const shop = await createVerifiedShop();
    try {
      const ids = await addPurchases(shop, 30);
      await shop.sync();
      const options = {
        organizationId: shop.organization,
        database: shop.database.pool,
        signal: new AbortController().signal,
      };
      const count = () => shop.onLiveFile((live) => countDifferences(live, options));
      expect(await count()).toBe(0);
      await shop.damage(
        `update purchase set order_number = 'x' where id in (${ids[2]}, ${ids[20]})`,
      );
      expect(await count()).toBe(1);
    } finally {
      await shop.close();
    }
  });
});
