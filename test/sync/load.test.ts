import { existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import {
  newestTick,
  readTicks,
  type TickFile,
} from '../../src/purchase-store/ticks/published-tick.ts';
import { unfinishedBasePath } from '../../sync/builds/base-file.ts';
import type { OrganizationReport } from '../../sync/organization-report.ts';
import { test } from '../support/fixtures.ts';
import { withBuilder } from '../support/held-builds.ts';
import { publishedFiles } from '../support/published-files.ts';
import { addCustomer } from '../support/shop.ts';
import { follow } from '../support/sync.ts';

const it = test
  // biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from this pattern.
  .extend('reports', ({}): OrganizationReport[] => [])
  /**
   * A worker that loads a base, 20 purchases at a time. Its reports of the organization are in
   * `reports`.
   */
  .extend('newWorker', ({ openWorker, organizationId, reports }) =>
    openWorker({
      loadChunkRows: 20,
      maxPurchasesWithoutBase: 0,
      onReport: (id, report) => id === organizationId && reports.push(report),
    }),
  )
  /** Adds purchases with unusual texts. Many have the same creation, some the first or the last. */
  .extend('addMany', async ({ database, organizationId }) => {
    const customer = await addCustomer(database.pool, organizationId);
    return (count: number) =>
      database.pool.query(
        `insert into purchases (organization_id, customer_id, purchase_value_in_cents, created_at,
           order_number, utm_source, utm_term, coupons)
         select $1, $2, n, case
             when n % 50 = 0 then '0001-01-01T00:00:00Z'
             when n % 50 = 1 then '9999-12-31T23:59:59.999999Z'
             else '2025-01-01'::timestamptz + n / 7 * interval '1 microsecond' end,
           (array['', null, 'a,b', 'say "hi"', E'two\\r\\nlines', E'\\\\N', E'tab\\tand \\\\', '日本', 'NULL'])[1 + n % 9],
           'source ' || n % 5, case when n % 3 = 0 then '' end,
           case when n % 4 = 0 then '[{"code": "A\\"B", "value": 10.5}]'::jsonb end
         from generate_series(1, $3) as n`,
        [organizationId, customer, count],
      );
  })
  /** Moves, replaces, adds and deletes purchases until the returned function is called. */
  .extend('startWriter', ({ database: { pool }, organizationId, addMany }) => () => {
    let isWriting = true;
    const write = async (round: number) => {
      await pool.query(
        `update purchases set purchase_value_in_cents = $2,
           created_at = '2025-01-01'::timestamptz + interval '1 microsecond' * (id * $2 % 1000)
         where organization_id = $1 and id % 97 = $2 % 97`,
        [organizationId, round],
      );
      await pool.query('delete from purchases where organization_id = $1 and id % 1009 = $2', [
        organizationId,
        round % 1009,
      ]);
      await addMany(3);
      // The change log gets many entries of this purchase.
      await pool.query(
        `insert into purchases (id, organization_id, customer_id, purchase_value_in_cents)
         select 1000000 + $1, $1, min(id), $2 from customers where organization_id = $1
         on conflict (id) do update set purchase_value_in_cents = excluded.purchase_value_in_cents`,
        [organizationId, round],
      );
    };
    const writing = (async () => {
      for (let round = 0; isWriting; round += 1) {
        await write(round);
        await sleep(20);
      }
    })();
    return async () => {
      isWriting = false;
      await writing;
    };
  });

describe('a load', () => {
  // The last chunk of 40 purchases is full.
  it.for([40, 401])(
    'copies every value exactly, in chunks that end at any of %i purchases',
    { tags: ['slow'] },
    async (purchases, { newWorker, organizationId, addMany, expectEqual, reports }) => {
      await addMany(purchases);
      await newWorker.once([organizationId]);
      await expectEqual();
      expect(reports.at(-1)).toMatchObject({ state: 'live', failure: null });
    },
  );

  it('of no purchases is followed by changes', async ({
    newWorker,
    organizationId,
    addMany,
    expectEqual,
  }) => {
    await newWorker.once([organizationId]);
    await addMany(10);
    await newWorker.once([organizationId]);
    await expectEqual();
  });

  it('includes the changes of writers that do not wait for it', { tags: ['slow'] }, async ({
    newWorker,
    organizationId,
    addMany,
    startWriter,
    expectEqual,
  }) => {
    await addMany(600);
    const stopWriter = startWriter();
    await newWorker.once([organizationId]);
    await stopWriter();
    await newWorker.once([organizationId]);
    await expectEqual();
  });

  it('of at most as many purchases as a log may hold creates no base, and copies every value', async ({
    openWorker,
    organizationId,
    folder,
    addMany,
    expectEqual,
  }) => {
    await addMany(100);
    const worker = await openWorker({ maxPurchasesWithoutBase: 100 });
    await worker.once([organizationId]);
    expect(publishedFiles(folder)?.base).toBeNull();
    await expectEqual();
    await addMany(1);
    await worker.rebuild(organizationId);
    expect(publishedFiles(folder)?.base).not.toBeNull();
    await expectEqual();
  });

  it('of a published organization leaves its files in use, and changes are appended meanwhile', {
    tags: ['slow'],
  }, async ({ newWorker, organizationId, folder, addMany, startWriter, expectEqual, reports }) => {
    await addMany(400);
    await newWorker.once([organizationId]);
    const stop = follow(newWorker);
    const stopWriter = startWriter();
    const before = publishedFiles(folder);
    const logSizes = new Set<number>();
    let isBuilt = false;
    const rebuild = newWorker.rebuild(organizationId).finally(() => {
      isBuilt = true;
    });
    while (!isBuilt) {
      const current = publishedFiles(folder);
      if (current?.log === before?.log) {
        expect(current).toEqual(before);
        logSizes.add(statSync(join(folder, current?.log ?? '')).size);
      }
      await sleep(10);
    }
    await rebuild;
    await stopWriter();
    await stop();
    expect(logSizes.size).toBeGreaterThan(1);
    expect(publishedFiles(folder)?.base).not.toBe(before?.base);
    expect(reports.map(({ state }) => state)).toContain('rebuilding');
    await newWorker.once([organizationId]);
    await expectEqual();
  });

  it.for(['', 'no database'])(
    'replaces an unusable file of an interrupted load: "%s"',
    async (content, { newWorker, organizationId, folder, addMany, expectEqual }) => {
      await addMany(10);
      mkdirSync(folder, { recursive: true });
      const write = () => writeFileSync(unfinishedBasePath(folder), content);
      write();
      await newWorker.once([organizationId]);
      await expectEqual();
      write();
      await newWorker.rebuild(organizationId);
      expect(existsSync(unfinishedBasePath(folder))).toBe(false);
      await expectEqual();
    },
  );

  const interrupted = it.extend(
    'interrupted',
    async ({ database, directory, organizationId, program, folder, addMany }) => {
      await addMany(2_000);
      const worker = program('test/support/chaos/small-limits.ts');
      const chunks = ['load-a.tsv', 'load-b.tsv'].map((name) => join(folder, name));
      while (!chunks.every(existsSync)) await sleep(5);
      // The third chunk replaces the first one, and then the fourth the second. Now the first one is committed.
      for (const chunk of chunks) {
        const { mtimeMs } = statSync(chunk);
        while (statSync(chunk).mtimeMs === mtimeMs) await sleep(5);
      }
      await worker.end('SIGKILL');
      await database.pool.query('delete from purchases where id % 5 = 0');
      return { tick: () => newestTick(readTicks(directory), organizationId) as TickFile };
    },
  );
  interrupted(
    'is continued after a SIGKILL of the worker, also if the next one syncs ticks before',
    {
      tags: ['slow'],
    },
    async ({ interrupted: { tick }, openWorker, organizationId, folder, expectEqual, reports }) => {
      const { synced: before } = tick();
      const worker = await openWorker({
        loadChunkRows: 1_000,
        maxPurchasesWithoutBase: 0,
        onReport: (id, report) => id === organizationId && reports.push(report),
        replace: withBuilder((builder) => ({
          async load(...args) {
            // The worker would prune the change log between these ticks.
            const isSynced = ({ synced, tick }: TickFile) =>
              synced.tick > before.tick && tick > synced.tick + 5;
            while (!isSynced(tick())) await sleep(5);
            return builder.load(...args);
          },
        })),
      });
      const stop = follow(worker);
      while (publishedFiles(folder) === null) await sleep(10);
      await stop();
      expect(reports.flatMap(({ progress }) => progress ?? [])[0]?.loaded).toBeGreaterThan(0);
      await worker.once([organizationId]);
      await expectEqual();
    },
  );
});
