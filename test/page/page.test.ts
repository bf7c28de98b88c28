import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { hasBrowser } from './browser.ts';
import { hostile, test as it, january } from './opened-page.ts';

const card = (page: Page, name: string) =>
  page.locator('#totals button', { hasText: name }).locator('.card-value');
const ranking = (page: Page) => page.locator('#ranking tbody tr');
const stateOf = (page: Page) =>
  Object.fromEntries(new URLSearchParams(new URL(page.url()).hash.slice(1)));

describe.runIf(hasBrowser)('the page', () => {
  it('shows the totals, ranking, purchases and freshness of the period after a key is entered', async ({
    open,
    fullShop,
    api,
  }) => {
    const { page, enter } = await open(january);
    await enter(fullShop.secret);
    expect(await page.locator('#organization').textContent()).toBe(`${hostile} shop`);
    const stats = (await api.get('/v1/purchases/stats', fullShop.secret)).json();
    expect(stats).toMatchObject({ purchase_count: 27, revenue_in_cents: 35_100 });
    expect(await card(page, 'Revenue').textContent()).toBe('R$351.00');
    expect(await card(page, 'Purchases').textContent()).toBe('27');
    expect(await card(page, 'Customers').textContent()).toBe('27');
    expect(await card(page, 'Average ticket').textContent()).toBe('R$13.00');
    expect(await ranking(page).count()).toBe(1);
    expect(await ranking(page).textContent()).toBe(`${hostile} sourceR$351.00100%27R$13.00`);
    expect(await page.locator('#purchases tbody tr').count()).toBe(10);
    await page.getByRole('button', { name: 'Load more' }).click();
    await page.locator('#purchases tbody tr').nth(19).waitFor();
    expect(await page.locator('#freshness').textContent()).toMatch(/^Data as of .+\(.+\)$/);
    expect(await page.locator('#chart canvas').count()).toBe(1);
    await page.getByText('Show as a table').click();
    const days = page.locator('#chart-table tbody tr');
    expect(await days.count()).toBe(31);
    expect(await days.nth(26).textContent()).toBe('Jan 27, 2026R$26.00R$0.00');
  });

  it('compares with as many days before', { tags: ['slow'] }, async ({ open, fullShop }) => {
    const { page, enter } = await open(
      '/#period=custom&from=2026-01-15&to=2026-01-28&timezone=UTC',
    );
    await enter(fullShop.secret);
    // 14 to 26 reais after 0 to 13.
    const change = page.locator('#totals button', { hasText: 'Revenue' }).locator('.card-change');
    expect(await change.textContent()).toBe('+185.7% from the previous period');
  });

  it('keeps period, filters, dimension and measure in the URL, also back, after a reload and in a shared link', {
    tags: ['slow'],
  }, async ({ open, fullShop }) => {
    const { page, enter, loaded } = await open();
    await enter(fullShop.secret);
    expect(stateOf(page)).toMatchObject({ period: 'last30', timezone: 'America/Sao_Paulo' });
    await page.getByText('7 days').click();
    await loaded();
    expect(await page.locator('#dates-shown').textContent()).toMatch(/^Jan 22\W+28, 2026$/);
    await page.getByRole('button', { name: 'Add filter' }).click();
    await page.getByLabel('Filter', { exact: true }).selectOption('Payment status');
    await page.getByLabel('Value').selectOption('paid');
    await page.getByRole('button', { name: 'Apply' }).click();
    await loaded();
    expect(await card(page, 'Purchases').textContent()).toBe('2');
    await page.locator('#dimension').selectOption('Platform');
    await loaded();
    await page.getByRole('button', { name: /^bling/ }).click();
    await loaded();
    const state = { period: 'last7', status: 'paid', group_by: 'platform', platform: 'bling' };
    expect(stateOf(page)).toMatchObject(state);
    await page.reload();
    await loaded();
    expect(await page.locator('#chips li').allTextContents()).toEqual([
      'Payment statuspaid×',
      'Platformbling×',
    ]);
    const other = await open(`/${new URL(page.url()).hash}`);
    await other.enter(fullShop.secret);
    expect(await card(other.page, 'Purchases').textContent()).toBe('2');
    expect(await other.page.locator('#chips li').count()).toBe(2);
    for (const purchases of ['2', '2', '5', '27']) {
      await page.goBack();
      await card(page, 'Purchases').getByText(purchases, { exact: true }).waitFor();
    }
    expect(await page.locator('#chips li').count()).toBe(0);
    expect(stateOf(page)).toMatchObject({ period: 'last30' });
    await page.goForward();
    await card(page, 'Purchases').getByText('5', { exact: true }).waitFor();
  });

  it('keeps amounts of several currencies apart, exact to the cent', { tags: ['slow'] }, async ({
    open,
    mixedSecret,
  }) => {
    const { page, enter, loaded } = await open(january);
    await enter(mixedSecret);
    expect(await card(page, 'Revenue').locator('.line').allTextContents()).toEqual([
      'R$90,071,992,547,409.93',
      '€1.00',
    ]);
    expect(await page.locator('#legend li').allTextContents()).toEqual(['BRL', 'EUR']);
    await page.getByRole('button', { name: 'Rank by currency' }).click();
    await loaded();
    expect(await ranking(page).allTextContents()).toEqual([
      'BRLR$90,071,992,547,409.93–1R$90,071,992,547,409.93',
      'EUR€1.00–1€1.00',
    ]);
    expect(await page.locator('#mixed-currencies').isVisible()).toBe(false);
  });

  it('marks data as old after five minutes without newer data', { tags: ['slow'] }, async ({
    open,
    fullShop,
    worker,
  }) => {
    const { page, context, enter, loaded } = await open(january);
    await worker.syncAll();
    await enter(fullShop.secret);
    const freshness = page.locator('#freshness');
    expect(await freshness.getAttribute('class')).toBe('freshness');
    await context.clock.fastForward('10:00');
    expect(await freshness.getAttribute('class')).toBe('freshness old');
    expect(await freshness.textContent()).toMatch(/ \(1\d min\. ago\)$/);
    await worker.syncAll();
    await page.getByRole('button', { name: 'Refresh' }).click();
    await loaded();
    expect(await freshness.getAttribute('class')).toBe('freshness');
  });

  it('says what to do if nothing matches', { tags: ['slow'] }, async ({ open, fullShop }) => {
    const { page, enter, loaded } = await open('/#period=last7&timezone=UTC&utm_source=none');
    await enter(fullShop.secret);
    expect(await card(page, 'Purchases').textContent()).toBe('0');
    await page.getByRole('button', { name: 'Remove all filters' }).click();
    await loaded();
    expect(await card(page, 'Purchases').textContent()).toBe('6');
  });
});
