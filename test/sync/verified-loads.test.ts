import { describe, expect } from 'vitest';
import { unfinishedBasePath } from '../../sync/builds/base-file.ts';
import { addVariedPurchases, verifiedTest } from '../support/verified-shop.ts';

const it = verifiedTest
  /** A published base of a hundred purchases, and an interrupted load of another one. */
  .extend('files', async ({ published }) => {
    const ids = await addVariedPurchases(published, 100);
    await published.sync();
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
    await published.withWorker(async (worker) => {
      const rebuilding = worker.rebuild(published.organization);
      rebuilding.catch(() => {});
      await stopped;
      await worker.close();
      await expect(rebuilding).rejects.toThrow(/is stopping|was aborted/);
    }, options);
    return { ...published, ids };
  });

describe('a load of a published organization', { tags: ['slow'] }, () => {
  it('begins again if the purchases that were loaded cannot be read', async ({ files }) => {
    const statement = 'alter table purchase rename column customer_key to former';
    await files.damage(statement, unfinishedBasePath(files.folder));
    const before = files.current();
    await files.withWorker((worker) => worker.rebuild(files.organization));
    expect(files.current()).not.toEqual(before);
    expect(await files.verify()).toMatchObject({ state: 'equal', purchases: 100 });
  });

  it('replaces no files if the new ones differ from Postgres', async ({ files }) => {
    const before = files.current();
    await files.damage(
      `update purchase set order_number = 'x' where id = ${files.ids[2]}`,
      unfinishedBasePath(files.folder),
    );
    await files.withWorker(async (worker) => {
      await expect(worker.rebuild(files.organization)).rejects.toThrow(
        'loaded purchases that differ from Postgres: 1',
      );
    });
    expect(files.current()).toEqual(before);
    await files.sync();
    expect(await files.verify()).toMatchObject({ state: 'equal', purchases: 100 });
  });
});
