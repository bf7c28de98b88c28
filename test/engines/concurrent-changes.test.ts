import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { ExportSource, PurchaseSums } from '../../src/domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../src/domain/purchase-query.ts';
import { readPurchaseStats, readPurchaseTimeSeries } from '../../src/domain/purchase-stats.ts';
import { test } from '../support/fixtures.ts';
import { writeKeepingTotals } from '../support/keeping-totals.ts';
import { canListOpenFiles, openFilesUnder } from '../support/open-files.ts';
import { untilShown } from '../support/published.ts';
import { publishedFiles } from '../support/published-files.ts';
import { testExportWriter as writeExport } from '../support/services.ts';
import { addACent } from '../support/shop.ts';
import { follow } from '../support/sync.ts';

const it = test.extend('revenueOf', ({ engine, organizationId }) => async () => {
  const { result } = await readPurchaseStats(engine, organizationId, {
    filters: {},
    groupLimit: 1,
  });
  return result.revenueInCents;
});

/** Of purchases of 1 cent, of 2 cents and so on. */
const revenueOfFirst = (count: number) => BigInt((count * (count + 1)) / 2);

const sumOf = (parts: readonly PurchaseSums[]) => ({
  purchaseCount: parts.reduce((sum, each) => sum + each.purchaseCount, 0n),
  revenueInCents: parts.reduce((sum, each) => sum + each.revenueInCents, 0n),
});

async function exportedRevenue(source: ExportSource): Promise<bigint> {
  if (!('purchases' in source)) throw new Error('the purchases are many');
  let revenue = 0n;
  for await (const batch of source.purchases) {
    for (const { purchase_value_in_cents: cents } of batch) revenue += cents;
  }
  return revenue;
}

it('each query shows the totals that all transactions keep, while they are published', {
  tags: ['slow'],
}, async ({ database, folder, organizationId: id, add, openWorker, engine, expectEqual }) => {
  const count = 200;
  await add(count);
  const worker = await openWorker({ maxPurchasesWithoutBase: 0, maxLogRecords: 100 });
  await worker.once([id]);
  const stop = follow(worker);
  const sums = { purchaseCount: BigInt(count), revenueInCents: revenueOfFirst(count) };
  const totals = { ...sums, customerCount: 1n };
  let isWriting = true;
  const write = async () => {
    for (let round = 0; isWriting; round += 1) await writeKeepingTotals(database.pool, id, round);
  };
  const writing = write();
  const versions = new Set<string | undefined>();
  const bases = new Set<string | null | undefined>();

  /** Reads totals and groups, periods, a page and an export. Each takes several statements. */
  const createReader = (filters: PurchaseFilters) => {
    let newest = 0n;
    const expectOrdered = (asOf: bigint) => {
      expect(asOf).toBeGreaterThanOrEqual(newest);
      newest = asOf;
    };
    const grouped = { filters, groupBy: 'utm_source', groupLimit: 1_000 } as const;
    return async () => {
      const stats = await readPurchaseStats(engine, id, grouped);
      expectOrdered(stats.asOf);
      expect(stats.result).toMatchObject(totals);
      expect(sumOf(stats.result.groups)).toEqual(sums);
      const series = await readPurchaseTimeSeries(engine, id, { ...grouped, interval: 'month' });
      expectOrdered(series.asOf);
      expect(series.result).toMatchObject(totals);
      expect(sumOf(series.result.series.flatMap(({ periods }) => periods))).toEqual(sums);
      const periods = await readPurchaseTimeSeries(engine, id, {
        filters,
        groupLimit: 1,
        interval: 'month',
      });
      expectOrdered(periods.asOf);
      expect(periods.result).toMatchObject(totals);
      const page = await engine.list(id, { filters, limit: 1_000 });
      expectOrdered(page.asOf);
      expect(new Set(page.result.purchases.map((each) => each.id)).size).toBe(count);
      await engine.export(id, filters, async ({ result, asOf }) => {
        expectOrdered(asOf);
        expect(await exportedRevenue(result)).toBe(sums.revenueInCents);
      });
    };
  };
  // Every purchase matches the filters, also those whose value has become negative.
  const allFilters = [{}, { minValueInCents: -1_000_000n }, { createdSince: 0n }];
  const readers = allFilters.map(async (filters) => {
    const readAll = createReader(filters);
    while (versions.size < 8 || bases.size < 2) {
      await readAll();
      versions.add((await engine.version(id))?.name);
      bases.add(publishedFiles(folder)?.base);
    }
  });
  await Promise.all(readers).finally(async () => {
    isWriting = false;
    await writing;
    await stop();
  });
  await worker.once([id]);
  await expectEqual();
});

it('queries continue with the files of a compaction, and close those before it', {
  tags: ['slow'],
}, async ({
  database,
  directory,
  folder,
  organizationId: id,
  add,
  revenueOf,
  openWorker,
  engine,
}) => {
  await add(100);
  const worker = await openWorker({ maxPurchasesWithoutBase: 0, maxLogRecords: 20 });
  await worker.once([id]);
  expect(await revenueOf()).toBe(revenueOfFirst(100));
  const before = publishedFiles(folder);
  for (let round = 1; round < 4; round += 1) {
    await database.pool.query(`${addACent} where organization_id = $1`, [id]);
    await worker.once([id]);
    await untilShown(engine, directory, id);
    expect(await revenueOf()).toBe(revenueOfFirst(100) + BigInt(round * 100));
    const { base = null, log = '' } = publishedFiles(folder) ?? {};
    expect(base).not.toBe(before?.base);
    if (!canListOpenFiles) continue;
    expect(openFilesUnder(folder)).toEqual([base ?? '', log].map((name) => join(folder, name)));
  }
});

it('an export reads the files with which it began, also after they have been removed', {
  tags: ['slow'],
}, async ({ database, folder, organizationId: id, add, openWorker, engine }) => {
  // Too many for an export within the process.
  const count = 2_100;
  await add(count);
  const worker = await openWorker({ maxPurchasesWithoutBase: 0, maxLogRecords: 20 });
  await worker.once([id]);
  await database.pool.query(`${addACent} where organization_id = $1 and id % 200 = 0`, [id]);
  const before = publishedFiles(folder);
  await engine.export(id, {}, async ({ result }, signal) => {
    await database.pool.query('delete from purchases where organization_id = $1 and id % 2 = 0', [
      id,
    ]);
    await worker.once([id]);
    for (const name of [before?.base, before?.log]) {
      expect(existsSync(join(folder, name ?? ''))).toBe(false);
    }
    let text = '';
    for await (const part of writeExport(result, {}, { format: 'ndjson' }, signal))
      text += Buffer.from(part);
    expect(text.trimEnd().split('\n')).toHaveLength(count);
  });
});
