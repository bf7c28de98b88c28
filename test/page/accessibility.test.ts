import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { hasBrowser, overflowOf, violationsOf } from './browser.ts';
import { hostile, test as it, january } from './opened-page.ts';

/** A folder for pictures of the page. */
const pictures = process.env.PAGE_PICTURES;

/** The id of the element that has the focus. Without an id, its data, label, value or text. */
const focused = (page: Page): Promise<string> =>
  page.evaluate(`(() => {
    const { id, dataset, ariaLabel, value, textContent } = document.activeElement;
    if (document.activeElement === document.body) return 'nothing';
    return id || dataset.measure || dataset.step || ariaLabel || value || textContent;
  })()`);

/** Presses Tab until an element has the focus. */
async function tabTo(page: Page, element: string, key = 'Tab'): Promise<void> {
  const passed = [await focused(page)];
  while (passed.at(-1) !== element && passed.length < 60) {
    await page.keyboard.press(key);
    passed.push(await focused(page));
  }
  expect(passed.at(-1), passed.join()).toBe(element);
}

describe.runIf(hasBrowser)('the page', { tags: ['slow'] }, () => {
  it.for(
    (['en-US', 'pt-BR'] as const).flatMap((locale) =>
      [390, 1024, 1440].flatMap((width) =>
        (['light', 'dark'] as const).map((colorScheme) => ({ locale, width, colorScheme })),
      ),
    ),
  )(
    'has no accessibility violation and nothing wider than the window: $locale, $width pixels, $colorScheme',
    async ({ locale, width, colorScheme }, { open, fullShop }) => {
      const viewport = { width, height: 900 };
      const { page, enter, loaded } = await open(january, { locale, colorScheme, viewport });
      const check = async (view: string) => {
        if (pictures !== undefined) {
          const path = join(pictures, `${view}-${locale}-${width}-${colorScheme}.png`);
          await page.screenshot({ path, fullPage: true });
        }
        expect(await violationsOf(page)).toEqual([]);
        expect(await overflowOf(page)).toBe(0);
      };
      await check('key-form');
      await enter(fullShop.secret);
      await check('dashboard');
      // Also with a status and an amount as wide as any.
      await page.evaluate(`(() => {
        const { cells } = document.querySelector('#purchases tbody tr');
        cells[1].firstChild.textContent = 'authorized';
        cells[2].textContent = 'R$12,251.70';
      })()`);
      expect(await overflowOf(page, '#purchases .scroll')).toBe(0);
      const head = await page.locator('.ranking-head').boundingBox();
      if (width > 640) expect(head?.height).toBeLessThan(40);
      await page.locator('.table-of-chart summary').click();
      await page.locator('.requests summary').click();
      if (width < 640) await page.locator('#more-controls').click();
      await page.locator('#add-filter').click();
      await check('dashboard-open');
      if (width < 900) await page.locator('#period').selectOption('all');
      else await page.locator('label', { has: page.locator('[value=all]') }).click();
      await loaded();
      expect(await page.locator('#chart canvas').count()).toBe(1);
      await page.locator('#purchases a').first().click();
      await page.locator('h1', { hasText: `${hostile} 26` }).waitFor();
      await check('order');
      await page.locator('.facts a').click();
      await page.locator('h1', { hasText: `${hostile} name` }).waitFor();
      await check('record');
      await page.locator('.sections a').nth(1).click();
      await page.locator('main tbody tr').nth(25).waitFor();
      await check('campaigns');
      await page.locator('.sections a').nth(3).click();
      await page.locator('main a[href^="/app/flows/"]').nth(24).waitFor();
      await check('flows');
      expect(await overflowOf(page, '.list .scroll')).toBe(0);
    },
  );

  it('can be used by keyboard alone', async ({ open, fullShop }) => {
    const { page, requests, loaded } = await open('/#period=last30&timezone=UTC&status=all');
    const press = (key: string) => page.keyboard.press(key);
    const state = () => new URLSearchParams(new URL(page.url()).hash.slice(1));

    // The form appears with its module, which may be later than the page.
    await page.locator('#key:focus').waitFor();
    await page.keyboard.type(fullShop.secret);
    await press('Enter');
    await loaded();
    expect(await focused(page)).toBe('main');

    // The period: arrows, then the days of another one.
    await press('Tab');
    expect(await focused(page)).toBe('last30');
    await press('ArrowLeft');
    await loaded();
    expect(await focused(page)).toBe('last7');
    expect(state().get('period')).toBe('last7');
    for (const name of ['lastmonth', 'yesterday', 'today', 'custom']) {
      await press('ArrowLeft');
      await loaded();
      expect(await focused(page)).toBe(name);
    }
    await press('Tab');
    expect(await focused(page)).toBe('from');
    await page.keyboard.type('01012026');
    await loaded();
    expect(await focused(page)).toBe('from');
    expect(state().get('from')).toBe('2026-01-01');
    // A year is typed digit by digit.
    const urls = requests.map((request) => request.url());
    expect(urls.filter((url) => url.includes('created_since=0'))).toEqual([]);

    // A filter: cancelled, added and removed.
    await tabTo(page, 'add-filter');
    await press('Enter');
    expect(await focused(page)).toBe('filter-name');
    await press('Escape');
    expect(await focused(page)).toBe('add-filter');
    await press('Enter');
    await press('Tab');
    expect(await focused(page)).toBe('filter-operator');
    await press('Tab');
    expect(await focused(page)).toBe('filter-input');
    await page.keyboard.type('refunded');
    await press('Tab');
    expect(await focused(page)).toBe('Apply');
    await press('Enter');
    await loaded();
    expect(await focused(page)).toBe('add-filter');
    expect(state().get('status')).toBe('refunded');
    await press('Shift+Tab');
    expect(await focused(page)).toBe('Remove the filter Payment status refunded');
    await press('Enter');
    await loaded();
    expect(await focused(page)).toBe('add-filter');
    expect(state().get('status')).toBe('paid');

    // The switch between paid purchases and all.
    await press('Shift+Tab');
    expect(await focused(page)).toBe('only-paid');
    await press('ArrowRight');
    await loaded();
    expect(await focused(page)).toBe('all-statuses');
    expect(state().get('status')).toBe('all');

    // The refresh by itself, and a step of sales.
    await tabTo(page, 'Settings');
    await press('Enter');
    await tabTo(page, 'automatic');
    await press('Space');
    expect(await page.locator('#automatic').isChecked()).toBe(true);
    await press('Space');
    await tabTo(page, 'abandoned');
    await press('Enter');
    await loaded();
    expect(state().get('status')).toBe('abandoned');
    await tabTo(page, 'created', 'Shift+Tab');
    await press('Enter');
    await loaded();
    expect(state().get('status')).toBe('all');
    await tabTo(page, 'Settings', 'Shift+Tab');

    // The measure, the purchases, and a group of the ranking.
    await tabTo(page, 'purchase_count');
    await press('Enter');
    await loaded();
    expect(await focused(page)).toBe('purchase_count');
    expect(state().get('measure')).toBe('purchase_count');
    await tabTo(page, 'download-purchases');
    const download = page.waitForEvent('download');
    await press('Enter');
    await download;
    expect(await focused(page)).toBe('download-purchases');
    for (const shown of [20, 27]) {
      await tabTo(page, 'Load more');
      await press('Enter');
      await page
        .locator('#purchases tbody tr')
        .nth(shown - 1)
        .waitFor();
      // The last page has no button any more.
      expect(await focused(page)).toBe(shown < 27 ? 'Load more' : 'Orders');
    }
    await tabTo(page, `${hostile} source`, 'Shift+Tab');
    await press('Enter');
    await loaded();
    expect(await focused(page)).toBe('ranking-title');
    expect(state().get('utm_source')).toBe(`${hostile} source`);
  });

  it('keeps the focus near a button that disappears', async ({ open, mixedSecret }) => {
    const { page, context, enter, loaded } = await open(`${january}&currencies=all`);
    await enter(mixedSecret);
    await page.getByRole('button', { name: 'Rank by currency' }).press('Enter');
    await loaded();
    expect(await focused(page)).toBe('ranking-title');

    await context.setOffline(true);
    await page.getByRole('button', { name: 'Refresh' }).press('Enter');
    const again = page.getByRole('button', { name: 'Try again' });
    await again.waitFor();
    await context.setOffline(false);
    await again.press('Enter');
    await again.waitFor({ state: 'hidden' });
    expect(await focused(page)).toBe('main');
  });
});
