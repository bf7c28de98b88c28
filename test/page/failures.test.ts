import type { Page, Route } from 'playwright-core';
import { describe, expect } from 'vitest';
import { hasBrowser } from './browser.ts';
import { addGrowingShop, test as it, january, paidJanuary } from './opened-page.ts';

const banner = (page: Page) => page.locator('.banner');
const ranking = (page: Page) => page.locator('#ranking tbody tr');
const rankingRequest = '**/v1/purchases/report?group_by=utm_source*';

describe.runIf(hasBrowser)('a panel of the page', { tags: ['slow'] }, () => {
  it('is requested again alone if its request failed, and a success clears its problem', async ({
    show,
  }) => {
    const { page, requests, loaded } = await show(january);
    await page.route('**/v1/purchases/cohorts*', (route) => route.abort());
    await page.route(rankingRequest, (route) => route.abort());
    await page.getByRole('button', { name: 'Refresh' }).click();
    await banner(page).waitFor();
    await loaded();
    // Earlier data are better than none.
    expect(await ranking(page).count()).toBe(1);
    await page.unroute('**/v1/purchases/cohorts*');
    // Both times, the totals are compared after the parts.
    const ofTotals = /report\?(?!.*group_by)/;
    await expect
      .poll(() => requests.filter((request) => ofTotals.test(request.url())).length)
      .toBe(4);
    const before = requests.length;
    const again = page.getByRole('button', { name: 'Try again' });
    await again.click();
    await loaded();
    expect(await banner(page).isVisible()).toBe(true);
    await page.unroute(rankingRequest);
    await again.click();
    await banner(page).waitFor({ state: 'hidden' });
    await loaded();
    const paths = requests.slice(before).map((request) => new URL(request.url()).pathname);
    const path = '/v1/purchases/';
    // After each, the totals are compared once more.
    const reports = Array(4).fill(`${path}report`);
    expect(paths.sort()).toEqual([`${path}cohorts`, ...reports]);
  });

  it('that failed is loaded with all others if the totals failed too', async ({ show }) => {
    const { page, context, loaded } = await show('/#period=last7&timezone=UTC&status=all');
    await context.setOffline(true);
    await page.getByText('30 days').click();
    await banner(page).waitFor();
    await loaded();
    expect(await page.getByText('This part is not loaded.').count()).toBe(7);
    await context.setOffline(false);
    await page.getByRole('button', { name: 'Try again' }).click();
    await banner(page).waitFor({ state: 'hidden' });
    await page.locator('#purchases tbody tr').first().waitFor();
    expect(await page.getByText('This part is not loaded.').count()).toBe(0);
  });

  it('counts down the seconds after too many requests, and goes on by itself', async ({ show }) => {
    const { page } = await show(january);
    let refused = 0;
    await page.route(rankingRequest, async (route) => {
      refused += 1;
      if (refused > 1) return route.continue();
      return route.fulfill({ status: 429, headers: { 'Retry-After': '3' }, body: '{}' });
    });
    await page.locator('#dimension').selectOption('Platform');
    await page.locator('#dimension').selectOption('Source');
    for (const left of ['3 seconds', '2 seconds', '1 second']) {
      await banner(page).locator('[aria-hidden]').getByText(`in ${left}.`).waitFor();
    }
    await banner(page).waitFor({ state: 'hidden' });
    await ranking(page).first().waitFor();
    expect(refused).toBe(2);
  });

  it.for([
    ['a chart by group', '**/v1/purchases/timeseries*'],
    ['orders', '**/v1/purchases?limit*'],
    ['best customers', '**/v1/purchases/report?group_by=customer&*'],
    ['orders by status', '**/v1/purchases/report?group_by=status*'],
    ['cohorts', '**/v1/purchases/cohorts*'],
  ] as const)(
    'that is later than the totals offers newer data: %s',
    async ([, pattern], { open, database: { pool }, worker }) => {
      const { secret, add } = await addGrowingShop(pool, {
        created_at: '2026-01-10T12:00:00Z',
        payment_status: 'paid',
      });
      await add();
      await worker.syncAll();
      const { page, enter } = await open(`${paidJanuary}&split=groups`);
      const change = async (route: Route) => {
        await add();
        await worker.syncAll();
        await route.continue();
      };
      await page.route(pattern, change, { times: 1 });
      await enter(secret);
      await page.getByRole('button', { name: 'Show newer data' }).waitFor();
      expect(await page.locator('#status').textContent()).toBe('Show newer data');
    },
  );

  it('that shows later purchases than the totals offers newer data, and says so', async ({
    open,
    database: { pool },
    worker,
  }) => {
    const { secret, add } = await addGrowingShop(pool, {
      ...{ created_at: '2026-01-10T12:00:00Z', currency: 'BRL' },
      ...{ payment_status: 'paid', utm_source: 'google' },
    });
    await add();
    await worker.syncAll();
    const { page, enter, loaded } = await open(paidJanuary);
    await enter(secret);
    const newer = page.getByRole('button', { name: 'Show newer data' });
    const count = page.locator('#totals .card-value').nth(1);
    // Instants move without changes too.
    await page.route(rankingRequest, async (route) => {
      await worker.syncAll();
      await route.continue();
    });
    await page.getByRole('button', { name: 'Refresh' }).click();
    await loaded();
    expect(await newer.count()).toBe(0);
    await page.unroute(rankingRequest);
    await page.route(rankingRequest, async (route) => {
      await add();
      await worker.syncAll();
      await route.continue();
    });
    await page.getByRole('button', { name: 'Refresh' }).click();
    await newer.waitFor();
    expect(await count.textContent()).toBe('1');
    expect(await ranking(page).textContent()).toContain('R$2.00');
    expect(await page.locator('#status').textContent()).toBe('Show newer data');
    await page.unroute(rankingRequest);
    await newer.click();
    await newer.waitFor({ state: 'hidden' });
    expect(await count.textContent()).toBe('2');
  });
});
