import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect } from 'vitest';
import { fileReader } from '../http/formats/reading.ts';
import { addCustomer, addKey, addOrganization, addPurchases } from '../support/shop.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { hasBrowser } from './browser.ts';
import { hostile, test as it, january, januaryBounds, paidJanuary } from './opened-page.ts';

const run = promisify(execFile);

describe.runIf(hasBrowser)('the page', () => {
  it('downloads what each panel shows as CSV, also after more purchases are loaded', {
    tags: ['slow'],
  }, async ({ show, fullShop, api }) => {
    const { page, save } = await show(january);
    const isAsResponse = async (
      button: string,
      file: string,
      path: string,
      bounds = januaryBounds,
    ) => {
      const { name, bytes } = await save(button);
      expect(name).toBe(file);
      const query = `${bounds}&format=csv_excel&amounts=units`;
      const expected = await api.get(`/v1/purchases${path}${query}`, fullShop.secret);
      expect(expected.statusCode).toBe(200);
      expect(bytes.toString(), path).toBe(expected.body);
    };
    const report = (parameters: string) =>
      `/report?${parameters}&timezone=UTC&compare_to=previous_period&`;
    await isAsResponse('series', 'series.csv', report('group_by=day&limit=1000'));
    const source = 'group_by=utm_source&order_by=-revenue_in_cents&limit=10';
    await isAsResponse('ranking', 'ranking.csv', report(source));
    const types = 'group_by=customer_type&order_by=customer_type';
    await isAsResponse('customer_types', 'customer_types.csv', report(types));
    const cohorts = '/cohorts?interval=month&periods=12&timezone=UTC&';
    const since = 'created_since=2025-02-01T00:00:00.000Z';
    await isAsResponse('cohorts', 'cohorts.csv', cohorts, januaryBounds.replace(/^[^&]*/, since));
    await isAsResponse('purchases', 'latest-purchases.csv', '?limit=10&timezone=UTC&');
    await page.getByRole('button', { name: 'Load more' }).click();
    await page.locator('#purchases tbody tr').nth(19).waitFor();
    await isAsResponse('purchases', 'latest-purchases.csv', '?limit=20&timezone=UTC&');
  });

  it('downloads CSV with the marks of the reader, in local time', { tags: ['slow'] }, async ({
    show,
  }) => {
    const { page, save } = await show(january.replace('UTC', 'America/Sao_Paulo'), {
      locale: 'pt-BR',
    });
    await page.evaluate('delete window.showSaveFilePicker');
    const { bytes } = await save('series');
    const [header, first] = bytes.toString().split('\r\n');
    expect(header).toMatch(/^\ufeffday \(America\/Sao_Paulo\);purchase_count;/);
    expect(first).toMatch(/^2026-01-01 00:00:00;1;/);
    for (const button of ['ranking', 'purchases', 'all']) {
      const file = await save(button);
      expect(file.bytes.toString(), button).toMatch(/;\d+,\d\d;/);
    }
  });

  it('downloads the latest 100 purchases if more are shown, and says so', {
    tags: ['slow'],
  }, async ({ open, database, worker, api }) => {
    const organizationId = await addOrganization(database.pool, 'Large');
    const customerId = await addCustomer(database.pool, organizationId);
    await addPurchases(database.pool, organizationId, customerId, 105);
    const { secret } = await addKey(database.pool, organizationId);
    await worker.syncAll();
    const { page, enter, save } = await open('/#period=all&timezone=UTC&status=all');
    await enter(secret);
    const button = page.locator('[data-download=purchases]');
    for (let shown = 10; shown < 105; shown += 10) {
      expect(await button.textContent()).toBe('CSV');
      await page.getByRole('button', { name: 'Load more' }).click();
      await page
        .locator('#purchases tbody tr')
        .nth(Math.min(shown + 10, 105) - 1)
        .waitFor();
    }
    expect(await button.textContent()).toBe('CSV of the latest 100');
    const { bytes } = await save('purchases');
    const expected = await api.get(
      '/v1/purchases?limit=100&format=csv_excel&amounts=units&timezone=UTC',
      secret,
    );
    expect(bytes.toString()).toBe(expected.body);
  });

  it('downloads amounts of several currencies apart, as the chart shows them', {
    tags: ['slow'],
  }, async ({ open, mixedSecret, api }) => {
    const { page, enter, loaded, save } = await open(`${january}&currencies=all`);
    await enter(mixedSecret);
    const expected = async (path: string) => {
      const query = `${januaryBounds}&format=csv_excel&amounts=units`;
      return (await api.get(`/v1/purchases/${path}&${query}`, mixedSecret)).body;
    };
    const line = () => page.locator('#requests pre').nth(1).textContent();
    const split = await save('series');
    expect(split.bytes.toString()).toBe(
      await expected('timeseries?interval=day&timezone=UTC&group_by=currency&group_limit=5'),
    );
    expect(await line()).toContain('/timeseries?interval=day&timezone=UTC&group_by=currency&');

    await page.getByRole('button', { name: /^Purchases/ }).click();
    await loaded();
    const counts = await save('series');
    const report = 'report?group_by=day&limit=1000&timezone=UTC&compare_to=previous_period';
    expect(counts.bytes.toString()).toBe(await expected(report));
    expect(await line()).not.toContain('currency');
  });

  it.for([
    { filter: 'status=paid', count: 9 },
    {
      filter: `status=all&utm_campaign=${encodeURIComponent(`${hostile} campaign 3`)}`,
      count: 1,
    },
  ])(
    'shows requests for curl, without the key, that return what it shows: $filter',
    { tags: ['slow'] },
    async ({ filter, count }, { show, fullShop, api, onTestFinished }) => {
      const folder = await temporaryDirectory();
      const files = await fileReader();
      onTestFinished(async () => {
        await files.close();
        await folder.remove();
      });
      const { page } = await show(`${paidJanuary}&${filter}`);
      await page.getByText('Requests of this view').click();
      const titles = await page.locator('#requests h3').allTextContents();
      const lines = await page.locator('#requests pre').allTextContents();
      expect(lines.join()).not.toContain(fullShop.secret);

      const filters = filter.replace('status=all&', '');
      const expected = (path: string, bounds = januaryBounds) =>
        api.get(`/v1/purchases${path}${bounds}&${filters}`, fullShop.secret);
      const report = async (parameters: string, bounds?: string) =>
        (await expected(`/report?${parameters}timezone=UTC&`, bounds)).body;
      const compared = `compare_to=previous_period&${januaryBounds}`;
      const totals = await report('', compared);
      expect(JSON.parse(totals).totals.purchase_count).toBe(count);
      const source = 'group_by=utm_source&order_by=-revenue_in_cents&limit=10&';
      const customers =
        'measures=revenue_in_cents,purchase_count&order_by=-revenue_in_cents&limit=10&';
      const cohorts = januaryBounds.replace(/^[^&]*/, 'created_since=2025-02-01T00:00:00.000Z');
      const bodies = new Map([
        ['Totals', totals],
        ['Time series', await report('group_by=day&limit=1000&', compared)],
        ['Ranking', await report(source, compared)],
        [
          'New and returning customers',
          await report('group_by=customer_type&order_by=customer_type&', compared),
        ],
        ['Best customers', await report(`group_by=customer&${customers}`)],
        ['Cohorts', (await expected('/cohorts?periods=12&timezone=UTC&', cohorts)).body],
        ['Latest purchases', (await expected('?limit=10&')).body],
        ['All purchases, as Parquet', ''],
      ]);
      expect(titles).toEqual([...bodies.keys()]);
      const env = { ...process.env, KEY: fullShop.secret };
      for (const [index, title] of titles.entries()) {
        const line = lines[index] as string;
        const { stdout } = await run('sh', ['-c', line], { cwd: folder.path, env });
        expect(stdout, title).toBe(bodies.get(title));
      }
      const saved = await readFile(join(folder.path, 'purchases.parquet'));
      const { rawPayload } = await expected('/export?format=parquet&');
      const { rows } = await files.readParquet(saved);
      expect(rows).toHaveLength(count);
      expect(rows).toEqual((await files.readParquet(rawPayload)).rows);
    },
  );

  it('downloads the whole selection as Parquet', { tags: ['slow'] }, async ({ open, fullShop }) => {
    const { page, enter, save } = await open(paidJanuary);
    await page.evaluate('delete window.showSaveFilePicker');
    await enter(fullShop.secret);
    const { name, bytes } = await save('parquet');
    expect(name).toBe('purchases.parquet');
    await page.getByText(/ saved$/).waitFor();
    const files = await fileReader();
    const { rows } = await files.readParquet(bytes);
    await files.close();
    expect(rows).toHaveLength(9);
  });
});
