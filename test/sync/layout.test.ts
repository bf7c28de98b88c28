import { readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { currentFile, readPublished } from '../../src/purchase-store/published-generation.ts';
import { type OrganizationReport, readReport } from '../../sync/status/report.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { addPurchases, verifiedTest } from '../support/verified-shop.ts';

const it = verifiedTest
  /** Changes the layout version of all files and of the manifest. */
  .extend('changeVersion', ({ published: shop }) => async () => {
    for (const path of [shop.deltaPath(), shop.livePath()]) {
      await shop.damage('update watermark set layout_version = 0', path);
    }
    const current = currentFile(dirname(shop.basePath()));
    const published = JSON.parse(readFileSync(current, 'utf8'));
    writeFileSync(current, JSON.stringify({ ...published, layoutVersion: 0 }));
  });

describe('files of another layout version', () => {
  it('are rebuilt when the worker starts, and a process that has them open reads them meanwhile', {
    tags: ['slow'],
  }, async ({ published: shop, changeVersion }) => {
    await addPurchases(shop, 20);
    await shop.sync();
    const reader = await createTestDuckDBEngine(shop.directory);
    const count = async () => {
      const query = { filters: {}, groupLimit: 1 };
      return Number((await reader.stats(shop.organization, query)).result.purchaseCount);
    };
    expect(await count()).toBe(20);
    await changeVersion();
    expect(await count()).toBe(20);

    await addPurchases(shop, 5);
    const stop = new AbortController();
    const reports: OrganizationReport[] = [];
    const following = shop.follow(stop.signal, (report) => reports.push(report));
    const counts = new Set<number>();
    while (!counts.has(25)) {
      counts.add(await count());
      await sleep(5);
    }
    stop.abort();
    await following;
    await reader.close();
    expect([...counts]).toEqual([20, 25]);
    expect(reports.map(({ activity }) => activity)).toContain('rebuilding');
    const directory = dirname(shop.basePath());
    expect(readReport(directory)?.failure).toBeNull();
    expect(readPublished(directory)?.layoutVersion).toBeGreaterThan(0);
    expect(await shop.verify()).toMatchObject({ state: 'equal', purchases: 25 });
  });
});
