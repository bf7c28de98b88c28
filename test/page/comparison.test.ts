import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { addDays } from '../../src/page/browser/view/calendar.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { hasBrowser, overflowOf, violationsOf } from './browser.ts';
import { test as it } from './opened-page.ts';

const stateOf = (page: Page) =>
  Object.fromEntries(new URLSearchParams(new URL(page.url()).hash.slice(1)));

/** The key of a shop with a paid purchase at noon of each day, of this value in cents. */
async function addDailyShop(
  { pool }: TestDatabase,
  days: readonly (readonly [day: string, value: number])[],
): Promise<string> {
  const organizationId = await addOrganization(pool);
  const customer_id = await addCustomer(pool, organizationId);
  for (const [day, purchase_value_in_cents] of days) {
    await addPurchase(pool, organizationId, {
      ...{ customer_id, created_at: `${day}T12:00:00Z`, purchase_value_in_cents },
      ...{ currency: 'BRL', payment_status: 'paid' },
    });
  }
  return (await addKey(pool, organizationId)).secret;
}

describe.runIf(hasBrowser)('the page', () => {
  it.for([
    ['en-US', '31 days are compared with 28: a change may come from that alone.'],
    ['pt-BR', '31 dias são comparados com 28: só isso já pode explicar uma variação.'],
  ] as const)(
    'says that a month is compared with a shorter one: %s',
    {
      tags: ['slow'],
    },
    async ([locale, sentence], { open, database, worker }) => {
      const days = Array.from(
        { length: 59 },
        (_, day) => [addDays('2025-02-01', day), 100] as const,
      );
      const secret = await addDailyShop(database, days);
      await worker.syncAll();
      const march = '/#period=custom&from=2025-03-01&to=2025-03-31&timezone=UTC';
      const { page, enter, loaded } = await open(`${march}&compare_to=previous_month`, { locale });
      await enter(secret);
      const note = page.locator('#dates-shown .different-days');
      expect(await note.textContent()).toBe(sentence);
      expect(await page.locator('.card-change').first().textContent()).toMatch(/^\+10[.,]7%$/);
      expect(await violationsOf(page)).toEqual([]);
      for (const width of [390, 1024, 1440]) {
        await page.setViewportSize({ width, height: 900 });
        expect(await note.isVisible()).toBe(true);
        expect(await overflowOf(page)).toBe(0);
      }
      for (const comparison of ['previous_period', 'none']) {
        await page.locator('#compare-to').selectOption(comparison);
        await loaded();
        expect(await note.count()).toBe(0);
      }
    },
  );

  it.for([
    ['en-US', 'the same weekdays of the year before'],
    ['pt-BR', 'os mesmos dias da semana do ano anterior'],
  ] as const)(
    'compares with the same weekdays of the year before: %s',
    {
      tags: ['slow'],
    },
    async ([locale, name], { open, database, worker }) => {
      // Both 3 March 2025 and 4 March 2024 are Mondays.
      const secret = await addDailyShop(database, [
        ['2025-03-03', 3_000],
        ['2024-03-03', 50_000],
        ['2024-03-04', 1_000],
      ]);
      await worker.syncAll();
      const week = '/#period=custom&from=2025-03-03&to=2025-03-09&timezone=UTC';
      const { page, enter, loaded } = await open(week, { locale });
      await enter(secret);
      const comparison = page.locator('#compare-to');
      await comparison.selectOption(name);
      await loaded();
      expect(stateOf(page)).toMatchObject({ compare_to: 'previous_year_weekdays' });
      expect(await page.locator('#dates-shown .compared').textContent()).toMatch(
        /\b4\W+10\b.* 2024$/,
      );
      expect(await page.locator('.card-change').first().textContent()).toBe('+200%');
      await page.locator('.table-of-chart summary').click();
      expect(await page.locator('#chart-table tbody tr').first().textContent()).toMatch(
        /2025R\$\s?30.00R\$\s?10.00$/,
      );
      // The list shows the whole name, and fits into a narrow window too.
      const width = async () => (await comparison.boundingBox())?.width;
      const whole = await width();
      expect(whole).toBeGreaterThan(280);
      await page.setViewportSize({ width: 390, height: 900 });
      await page.locator('#more-controls').click();
      expect(await width()).toBe(whole);
      expect(await overflowOf(page)).toBe(0);
    },
  );

  it('compares with the same time of the period before, and marks the period that is not over', {
    tags: ['slow'],
  }, async ({ open, database: { pool }, worker }) => {
    const organizationId = await addOrganization(pool);
    const customer_id = await addCustomer(pool, organizationId);
    const now = Date.now();
    const day = (daysAgo: number) =>
      new Date(now - daysAgo * 86_400_000).toISOString().slice(0, 10);
    const add = (created_at: string, purchase_value_in_cents: number) =>
      addPurchase(pool, organizationId, {
        ...{ customer_id, created_at, purchase_value_in_cents },
        ...{ currency: 'BRL', payment_status: 'paid' },
      });
    for (const daysAgo of [0, 1, 2, 3, 4, 5, 6]) await add(`${day(daysAgo)}T00:00:00Z`, 300);
    for (const daysAgo of [7, 8, 9, 10, 11, 12]) await add(`${day(daysAgo)}T00:00:00Z`, 100);
    // Later than the present time of day.
    await add(`${day(7)}T23:59:59.9Z`, 5_000);
    const { secret } = await addKey(pool, organizationId);
    await worker.syncAll();
    const { page, enter, loaded } = await open('/#period=last7&timezone=UTC');
    await page.clock.setFixedTime(now);
    await enter(secret);
    const first = page.locator('#totals .card').first();
    expect(await first.textContent()).toMatch(/\+250%before: R\$6.00 in /);
    expect(await page.locator('#dates-shown .compared').textContent()).toMatch(
      /, until \d+:\d\d [AP]M$/,
    );
    expect(await page.locator('#ranking tbody tr').textContent()).toContain('R$21.00+250%100%');
    expect(await page.locator('#legend li').allTextContents()).toEqual([
      expect.any(String),
      expect.any(String),
      'until now',
    ]);
    await page.getByText('Show as a table').click();
    const days = page.locator('#chart-table tbody tr');
    expect(await days.count()).toBe(7);
    expect(await days.first().textContent()).toContain('R$3.00R$0.00');
    expect(await days.last().textContent()).toMatch(/, until .+R\$3.00R\$1.00$/);
    await page.getByLabel('compared with').selectOption('the year before');
    await loaded();
    expect(stateOf(page)).toMatchObject({ compare_to: 'previous_year' });
    expect(await first.locator('.card-change').textContent()).toBe('no data in the period before');
    await page.getByLabel('compared with').selectOption('no comparison');
    await loaded();
    expect(await first.locator('.card-change').textContent()).toBe('');
    expect(await page.locator('#legend li').count()).toBe(2);
    // A month is compared with a month, unless its user chose otherwise.
    await page.getByText('This month').click();
    await loaded();
    expect(stateOf(page)).toMatchObject({ compare_to: 'none' });
  });
});
