import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { hasBrowser, overflowOf, violationsOf } from './browser.ts';
import { hostile, test as it, january } from './opened-page.ts';

/** A folder for pictures of the page. */
const pictures = process.env.PAGE_PICTURES;

/** The id of the element that has the focus. Without an id, its data, label, value or text. */
const focused = (page: Page): Promise<string> =>
  page.evaluate(`(() => {
    const { id, dataset, ariaLabel, value, textContent } = document.activeElement;
    if (document.activeElement === document.body) return 'nothing';
    return id || dataset.measure || ariaLabel || value || textContent;
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

describe.runIf(hasBrowser)('the page', () => {
  it.for(
    [390, 768, 1440].flatMap((width) => [['light', width] as const, ['dark', width] as const]),
  )(
    'has no accessibility violation and nothing wider than the window: %s, %i pixels',
    async ([colorScheme, width], { open, fullShop }) => {
      const viewport = { width, height: 900 };
      const { page, enter, loaded } = await open(january, { colorScheme, viewport });
      const check = async (view: string) => {
        if (pictures !== undefined) {
          const path = join(pictures, `${view}-${width}-${colorScheme}.png`);
          await page.screenshot({ path, fullPage: true });
        }
        expect(await violationsOf(page)).toEqual([]);
        expect(await overflowOf(page)).toBe(0);
      };
      await check('key-form');
      await enter(fullShop.secret);
      await check('dashboard');
      expect(await overflowOf(page, '#purchases .scroll')).toBe(0);
      await page.getByText('Show as a table').click();
      await page.getByText('Requests of this view').click();
      await page.getByRole('button', { name: 'Add filter' }).click();
      await check('dashboard-open');
      await page.getByText('All time').click();
      await loaded();
      expect(await page.locator('#chart canvas').count()).toBe(1);
      await page.locator('#purchases a').first().click();
      await page.locator('h1', { hasText: `${hostile} name` }).waitFor();
      await check('record');
    },
  );

  it('can be used by keyboard alone', async ({ open, fullShop }) => {
    const { page, requests, loaded } = await open('/#period=last30&timezone=UTC');
    const press = (key: string) => page.keyboard.press(key);
    const state = () => new URLSearchParams(new URL(page.url()).hash.slice(1));

    expect(await focused(page)).toBe('key');
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
    await press('ArrowLeft');
    await loaded();
    expect(await focused(page)).toBe('custom');
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
    expect(await focused(page)).toBe('filter-input');
    await page.keyboard.type('paid');
    await press('Tab');
    expect(await focused(page)).toBe('Apply');
    await press('Enter');
    await loaded();
    expect(await focused(page)).toBe('add-filter');
    expect(state().get('status')).toBe('paid');
    await press('Shift+Tab');
    expect(await focused(page)).toBe('Remove the filter Payment status paid');
    await press('Enter');
    await loaded();
    expect(await focused(page)).toBe('add-filter');
    expect(state().get('status')).toBeNull();

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
      expect(await focused(page)).toBe(shown < 27 ? 'Load more' : 'Purchases');
    }
    await tabTo(page, `${hostile} source`, 'Shift+Tab');
    await press('Enter');
    await loaded();
    expect(await focused(page)).toBe('ranking-title');
    expect(state().get('utm_source')).toBe(`${hostile} source`);
  });

  it('keeps the focus near a button that disappears', async ({ open, database, worker }) => {
    const organizationId = await addOrganization(database.pool, 'Mixed');
    const customer_id = await addCustomer(database.pool, organizationId);
    for (const currency of ['BRL', 'EUR']) {
      const values = { customer_id, currency, created_at: '2026-01-10T12:00:00Z' };
      await addPurchase(database.pool, organizationId, values);
    }
    const { secret } = await addKey(database.pool, organizationId);
    await worker.syncAll();
    const { page, context, enter, loaded } = await open(january);
    await enter(secret);
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

  it('has a name and a role for everything that a screen reader reads, and says what changes', async ({
    open,
    database,
    worker,
  }) => {
    const organizationId = await addOrganization(database.pool, 'Livraria Ipê');
    const customer_id = await addCustomer(database.pool, organizationId);
    for (const [index, payment_status] of ['paid', 'pending'].entries()) {
      const created_at = `2026-01-1${index}T12:00:00Z`;
      const values = { customer_id, payment_status, created_at, currency: 'BRL' };
      await addPurchase(database.pool, organizationId, { ...values, order_number: `${index}` });
    }
    const { secret } = await addKey(database.pool, organizationId);
    await worker.syncAll();
    const { page, context, enter } = await open(january);
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await enter(secret);
    const status = page.locator('#status');
    expect(await status.getAttribute('role')).toBe('status');
    expect(await status.textContent()).toBe('2 purchases');
    await page.getByText('Requests of this view').click();
    const snapshot = await page.locator('main').ariaSnapshot();
    // Hundreds of time zones, and what differs in each run.
    const lines = snapshot
      .replace(/^ *- option (?!.*\[selected\]).*\n/gm, '')
      .replace(/(?<=Data as of ).+(?=\n)/, '…')
      .replace(/cus_\w+/g, 'cus_…')
      .replace(/(?<=\/\/127\.0\.0\.1:)\d+/g, '…');
    expect(lines).toMatchInlineSnapshot(`
      "- main:
        - heading "Purchases" [level=1]
        - region "Period and filters":
          - group "Period":
            - text: Period
            - radio "7 days"
            - text: 7 days
            - radio "30 days"
            - text: 30 days
            - radio "90 days"
            - text: 90 days
            - radio "This month"
            - text: This month
            - radio "This year"
            - text: This year
            - radio "All time"
            - text: All time
            - radio "Custom" [checked]
            - text: Custom
          - text: From
          - textbox "From": 2026-01-01
          - text: to
          - textbox "to": 2026-01-31
          - button "Add filter"
          - text: Time zone
          - combobox "Time zone":
            - option "UTC" [selected]
        - paragraph: Jan 1 – 31, 2026
        - paragraph: Data as of …
        - button "Refresh"
        - region "Totals":
          - button "Revenue R$2.00 none before" [pressed]
          - button "Purchases 2 none before"
          - button "Customers 1 none before"
          - button "Average ticket R$1.00 none before"
        - region "Revenue over time":
          - heading "Revenue over time" [level=2]
          - list "Lines":
            - listitem: This period
            - listitem: Previous period
          - text: by
          - combobox "Revenue over time by":
            - option "Automatic" [selected]
          - button "CSV Revenue over time": CSV
          - group: Show as a table
        - region "Ranking":
          - heading "Ranking" [level=2]
          - text: by
          - combobox "Ranking by":
            - option "UTM source" [selected]
          - button "CSV Ranking": CSV
          - region "Groups":
            - table:
              - rowgroup:
                - row "UTM source Revenue Share Purchases Avg. ticket":
                  - columnheader "UTM source"
                  - columnheader "Revenue"
                  - columnheader "Share"
                  - columnheader "Purchases"
                  - columnheader "Avg. ticket"
              - rowgroup:
                - row "No UTM source R$2.00 100% 2 R$1.00":
                  - rowheader "No UTM source"
                  - cell "R$2.00"
                  - cell "100%"
                  - cell "2"
                  - cell "R$1.00"
        - region "Latest purchases":
          - heading "Latest purchases" [level=2]
          - button "CSV Latest purchases": CSV
          - region "Purchases":
            - table:
              - rowgroup:
                - row "Purchase and customer Status Value":
                  - columnheader "Purchase and customer"
                  - columnheader "Status"
                  - columnheader "Value"
              - rowgroup:
                - row "1 Jan 11, 2026, 12:00 PM cus_… pending R$1.00":
                  - cell "1 Jan 11, 2026, 12:00 PM cus_…":
                    - text: 1 Jan 11, 2026, 12:00 PM
                    - link "cus_…":
                      - /url: /app/customers/cus_…
                  - cell "pending"
                  - cell "R$1.00"
                - row "0 Jan 10, 2026, 12:00 PM cus_… paid R$1.00":
                  - cell "0 Jan 10, 2026, 12:00 PM cus_…":
                    - text: 0 Jan 10, 2026, 12:00 PM
                    - link "cus_…":
                      - /url: /app/customers/cus_…
                  - cell "paid"
                  - cell "R$1.00"
        - region "Download":
          - heading "Download" [level=2]
          - paragraph: All purchases of this period with these filters, as one file.
          - button "Parquet Download": Parquet
          - button "CSV Download": CSV
          - status
          - group:
            - text: Requests of this view, for
            - code: curl
            - heading "Totals and ranking" [level=3]
            - 'button "Copy the request: Totals and ranking"': Copy
            - code: "curl -H \\"Authorization: Bearer $API_KEY\\" \\"http://127.0.0.1:…/v1/purchases/stats?group_by=utm_source&group_limit=10&timezone=UTC&created_since=2026-01-01T00%3A00%3A00.000Z&created_until=2026-01-31T23%3A59%3A59.999999Z\\""
            - heading "Time series" [level=3]
            - 'button "Copy the request: Time series"': Copy
            - code: "curl -H \\"Authorization: Bearer $API_KEY\\" \\"http://127.0.0.1:…/v1/purchases/timeseries?interval=day&timezone=UTC&created_since=2026-01-01T00%3A00%3A00.000Z&created_until=2026-01-31T23%3A59%3A59.999999Z\\""
            - heading "Latest purchases" [level=3]
            - 'button "Copy the request: Latest purchases"': Copy
            - code: "curl -H \\"Authorization: Bearer $API_KEY\\" \\"http://127.0.0.1:…/v1/purchases?limit=10&created_since=2026-01-01T00%3A00%3A00.000Z&created_until=2026-01-31T23%3A59%3A59.999999Z\\""
            - heading "All purchases, as Parquet" [level=3]
            - 'button "Copy the request: All purchases, as Parquet"': Copy
            - code: "curl -o purchases.parquet -H \\"Authorization: Bearer $API_KEY\\" \\"http://127.0.0.1:…/v1/purchases/export?created_since=2026-01-01T00%3A00%3A00.000Z&created_until=2026-01-31T23%3A59%3A59.999999Z&format=parquet\\"""
    `);

    await page.getByRole('button', { name: 'Copy the request: Time series' }).click();
    await page.getByText('Copied', { exact: true }).first().waitFor();
    expect(await status.textContent()).toBe('Copied');
    const line = await page.locator('#requests pre').nth(1).textContent();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(line);
  });
});
