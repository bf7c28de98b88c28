import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { addRow } from '../support/rows.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { hasBrowser, overflowOf } from './browser.ts';
import { hostile, test as it, january } from './opened-page.ts';

const card = (page: Page, name: string) =>
  page.locator('#totals button', { hasText: name }).locator('.card-value');
const ranking = (page: Page) => page.locator('#ranking tbody tr');
const stateOf = (page: Page) =>
  Object.fromEntries(new URLSearchParams(new URL(page.url()).hash.slice(1)));

describe.runIf(hasBrowser)('the page', () => {
  it('shows the totals, ranking, purchases and freshness of the period after a key is entered', async ({
    show,
    fullShop,
    api,
  }) => {
    const { page, requests } = await show(january);
    expect(await page.locator('#organization').textContent()).toBe(`${hostile} shop`);
    const stats = (await api.get('/v1/purchases/stats', fullShop.secret)).json();
    expect(stats).toMatchObject({ purchase_count: 27, revenue_in_cents: 35_100 });
    expect(await card(page, 'Order value').textContent()).toBe('R$351.00');
    expect(await card(page, 'Orders').textContent()).toBe('27');
    expect(await card(page, 'Customers').textContent()).toBe('27');
    expect(await card(page, 'Average ticket').textContent()).toBe('R$13.00');
    expect(await ranking(page).count()).toBe(1);
    expect(await ranking(page).textContent()).toBe(`${hostile} sourceR$351.00new100%27R$13.00`);
    const purchases = page.locator('#purchases tbody tr');
    expect(await purchases.count()).toBe(10);
    // One request has the names of all rows of the list. Those of the best customers are in the report.
    expect(await purchases.first().locator('a').last().textContent()).toBe(`${hostile} name`);
    expect(requests.filter((request) => request.url().includes('/v1/customers?')).length).toBe(1);
    await page.getByRole('button', { name: 'Load more' }).click();
    await purchases.nth(19).waitFor();
    expect(await page.locator('#freshness').textContent()).toMatch(/^Updated at .+\(.+\)$/);
    expect(await page.locator('#chart canvas').count()).toBe(1);
    await page.getByText('Show as a table').click();
    const days = page.locator('#chart-table tbody tr');
    expect(await days.count()).toBe(27);
    expect(await days.nth(26).textContent()).toBe('Jan 27, 2026R$26.00R$0.00');
  });

  it('keeps period, filters, dimension and measure in the URL, also back, after a reload and in a shared link', {
    tags: ['slow'],
  }, async ({ show }) => {
    const { page, loaded } = await show('/#status=all');
    expect(stateOf(page)).toMatchObject({ period: 'last30', timezone: 'America/Sao_Paulo' });
    await page.getByText('7 days').click();
    await loaded();
    expect(await page.locator('#dates-shown').textContent()).toMatch(
      /^Jan 22\W+28, 2026compared with/,
    );
    await page.locator('label', { has: page.locator('#only-paid') }).click();
    await loaded();
    expect(await card(page, 'Orders').textContent()).toBe('2');
    await page.locator('#dimension').selectOption('Platform');
    await loaded();
    await page.getByRole('button', { name: /^bling/ }).click();
    await loaded();
    const state = { period: 'last7', status: 'paid', group_by: 'utm_source', platform: 'bling' };
    // The ranking goes on to a dimension of which more than one row is left.
    expect(stateOf(page)).toMatchObject(state);
    await page.reload();
    await loaded();
    expect(await page.locator('#chips li').allTextContents()).toEqual(['Platformisbling×']);
    const other = await show(`/${new URL(page.url()).hash}`);
    expect(await card(other.page, 'Orders').textContent()).toBe('2');
    expect(await other.page.locator('#chips li').count()).toBe(1);
    for (const purchases of ['2', '2', '5', '27']) {
      await page.goBack();
      await card(page, 'Orders').getByText(purchases, { exact: true }).waitFor();
    }
    expect(await page.locator('#chips li').count()).toBe(0);
    expect(stateOf(page)).toMatchObject({ period: 'last30' });
    await page.goForward();
    await card(page, 'Orders').getByText('5', { exact: true }).waitFor();
  });

  it('lists the latest purchases of a UTM value too, newest first', { tags: ['slow'] }, async ({
    show,
  }) => {
    const source = encodeURIComponent(`${hostile} source`);
    const { page } = await show(`/#period=all&timezone=UTC&status=all&utm_source=${source}`);
    const values = page.locator('#purchases tbody td:last-child');
    const reais = (from: number, to: number) =>
      Array.from({ length: from - to + 1 }, (_, index) => `R$${from - index}.00`);
    expect(await values.allTextContents()).toEqual(reais(26, 17));
    for (const shown of [20, 27]) {
      await page.getByRole('button', { name: 'Load more' }).click();
      await values.nth(shown - 1).waitFor();
    }
    expect(await values.allTextContents()).toEqual(reais(26, 0));
    expect(await page.locator('#purchases a').last().textContent()).toBe(`${hostile} name`);
  });

  it('keeps amounts of several currencies apart, exact to the cent', { tags: ['slow'] }, async ({
    open,
    mixedSecret,
  }) => {
    const { page, enter, loaded } = await open(`${january}&currencies=all`);
    await enter(mixedSecret);
    expect(await card(page, 'Order value').locator('.line').allTextContents()).toEqual([
      'R$90,071,992,547,409.93',
      '€1.00',
    ]);
    expect(await page.locator('#legend li').allTextContents()).toEqual(['BRL', 'EUR']);
    await page.getByRole('button', { name: 'Rank by currency' }).click();
    await loaded();
    expect(await ranking(page).allTextContents()).toEqual([
      'BRLR$90,071,992,547,409.93new–1R$90,071,992,547,409.93',
      'EUR€1.00new–1€1.00',
    ]);
    expect(await page.locator('#mixed-currencies').isVisible()).toBe(false);
  });

  it.for([360, 700, 1440])(
    'breaks no amount within its digits, and shows the value beside a long order number: %i pixels',
    { tags: ['slow'] },
    async (width, { open, database: { pool } }) => {
      const organizationId = await addOrganization(pool);
      const customer_id = await addCustomer(pool, organizationId);
      const purchase = { customer_id, created_at: '2026-01-10T12:00:00Z', currency: 'BRL' };
      const order_number = '1234567890'.repeat(10);
      const values = { ...purchase, order_number, purchase_value_in_cents: 115_863_729 };
      await addPurchase(pool, organizationId, values);
      const { secret } = await addKey(pool, organizationId);
      const { page, enter } = await open(january, { viewport: { width, height: 900 } });
      await enter(secret);
      expect(await card(page, 'Order value').textContent()).toBe('R$1,158,637.29');
      const lines = await page.evaluate(`(() => {
        const range = document.createRange();
        range.selectNodeContents(document.querySelector('#totals .card-value'));
        return range.getClientRects().length;
      })()`);
      expect(lines).toBe(1);
      expect(await overflowOf(page, '#purchases .scroll')).toBe(0);
    },
  );

  it('shows every custom attribute of a customer, whatever its name and type', {
    tags: ['slow'],
  }, async ({ open, database: { pool } }) => {
    const organization_id = await addOrganization(pool);
    const attributes = {
      id: '7',
      name: 'Zé',
      status: 'vip',
      sizes: [38, 40],
      debt_in_cents: 'none',
    };
    const id = await addRow(pool, 'customers', { organization_id, attributes });
    const { secret } = await addKey(pool, organization_id);
    const { page, enter } = await open(`/app/customers/${encodeId('customer', id)}`);
    await enter(secret);
    const facts = page.locator('section', { hasText: 'Attributes' }).locator('.facts > div');
    expect((await facts.allTextContents()).sort()).toEqual([
      'Debtnone',
      'ID7',
      'NameZé',
      'Sizes[38,40]',
      'Statusvip',
    ]);
  });

  it('shows the metrics of a campaign in large digits', { tags: ['slow'] }, async ({
    open,
    api,
    fullShop: { secret },
  }) => {
    const { data } = (await api.get('/v1/email-campaigns?limit=1', secret)).json();
    const { page, enter } = await open(`/app/email-campaigns/${data[0].id}`);
    await enter(secret);
    const size = `parseFloat(getComputedStyle(document.querySelector('.metrics .card-value')).fontSize)`;
    expect(await page.evaluate(size)).toBeGreaterThan(14);
  });

  it('draws the chart in a browser whose language is no language tag', {
    tags: ['slow'],
  }, async ({ show }) => {
    const { page, loaded } = await show(january);
    await page.addInitScript(`Object.defineProperty(Navigator.prototype, 'language', {
      get: () => 'en-US@posix',
    })`);
    await page.reload();
    await loaded();
    expect(await page.locator('#chart canvas').count()).toBe(1);
  });

  it('marks data as old after five minutes without newer data', { tags: ['slow'] }, async ({
    open,
    fullShop,
    worker,
  }) => {
    const { page, context, requests, enter, loaded } = await open(january);
    await worker.syncAll();
    await enter(fullShop.secret);
    const freshness = page.locator('#freshness');
    expect(await freshness.getAttribute('class')).toBe('freshness');
    // The page asks by itself for the instant of the data alone, and newer data are shown on demand.
    await worker.syncAll();
    const before = requests.length;
    await context.clock.fastForward('01:01');
    await page.getByRole('button', { name: 'Show newer data' }).waitFor();
    const asked = requests.slice(before).map((one) => new URL(one.url()));
    expect(asked.map(({ pathname, search }) => pathname + search)).toEqual([
      '/v1/purchases?limit=1',
    ]);
    // If this fails, the data of before stay, with a sign.
    await context.setOffline(true);
    await context.clock.fastForward('10:00');
    await page.locator('.freshness.failed').waitFor();
    expect(await freshness.getAttribute('class')).toBe('freshness old failed');
    expect(await freshness.textContent()).toMatch(/ \(1\d min\. ago\)$/);
    expect(await card(page, 'Order value').textContent()).toBe('R$351.00');
    await context.setOffline(false);
    await worker.syncAll();
    await page.getByRole('button', { name: 'Show newer data' }).click();
    await page.locator('.freshness:not(.failed)').waitFor();
    await loaded();
    expect(await freshness.getAttribute('class')).toBe('freshness');
  });

  it('shows how to write the first purchase of an organization', { tags: ['slow'] }, async ({
    open,
    database,
    worker,
  }) => {
    const organizationId = await addOrganization(database.pool, "Ana's shop");
    const { secret } = await addKey(database.pool, organizationId);
    await worker.syncAll();
    const { page, enter, loaded } = await open('/#period=all&timezone=UTC');
    await enter(secret);
    await database.pool.query((await page.locator('.first-purchase pre').textContent()) ?? '');
    await worker.syncAll();
    await page.getByRole('button', { name: 'Refresh' }).click();
    await loaded();
    expect(await card(page, 'Sales').textContent()).toBe('R$129.90');
  });

  it('begins a custom period with the days that are shown, and refuses an end before its begin', {
    tags: ['slow'],
  }, async ({ show }) => {
    const { page, loaded } = await show('/#period=all&timezone=UTC&status=all');
    await page.getByText('Custom', { exact: true }).click();
    await loaded();
    expect(stateOf(page)).toMatchObject({ from: '2026-01-01', to: '2026-01-28' });
    await page.getByLabel('to', { exact: true }).fill('2025-12-31');
    expect(await page.locator('#period-problem').textContent()).toMatch(/must not end before/);
    expect(stateOf(page)).toMatchObject({ to: '2026-01-28' });
    await page.getByLabel('From', { exact: true }).fill('2025-12-01');
    await loaded();
    expect(await page.locator('#period-problem').isVisible()).toBe(false);
    expect(stateOf(page)).toMatchObject({ from: '2025-12-01', to: '2025-12-31' });
  });

  it('has a line for each group of the ranking, and the intervals that are possible', {
    tags: ['slow'],
  }, async ({ show, fullShop, api }) => {
    const { page, loaded } = await show(`${january}&group_by=platform&interval=hour`);
    await page.getByLabel('by Platform').check();
    await loaded();
    const { groups } = (
      await api.get('/v1/purchases/stats?group_by=platform&group_limit=5', fullShop.secret)
    ).json();
    expect(await page.locator('#legend li').allTextContents()).toEqual(
      groups.map(({ key }: { key: string }) => key),
    );
    const hour = page.locator('#interval option[value=hour]');
    expect(await hour.isDisabled()).toBe(false);
    await page.getByText('90 days').click();
    await loaded();
    expect(await hour.isDisabled()).toBe(true);
    expect(stateOf(page)).toMatchObject({ interval: 'auto', split: 'groups' });
  });

  it('has the same rows at the same place after a look at a record', { tags: ['slow'] }, async ({
    show,
  }) => {
    const { page, loaded } = await show(january);
    await page.getByRole('button', { name: 'Load more' }).click();
    const rows = page.locator('#purchases tbody tr');
    await rows.nth(19).waitFor();
    await rows.nth(15).locator('a').last().click();
    await page.getByRole('heading', { name: `${hostile} name` }).waitFor();
    await page.goBack();
    await loaded();
    expect(await rows.count()).toBe(20);
    await page.waitForFunction('scrollY > 100');
  });

  it('finds customers by a part of their name or email, and by phone', { tags: ['slow'] }, async ({
    show,
    database,
    fullShop,
  }) => {
    const { rows } = await database.pool.query(
      "insert into customers (organization_id, name, email, phone) values ($1, 'Zélia Souza', 'ze@shop.example', '+55 21 98765-4321') returning id",
      [fullShop.organizationId],
    );
    const { page } = await show(january);
    const found = page.locator('#found a');
    for (const text of ['zelia', 'ze@shop', '(021) 98765 4321', '21 98765']) {
      await page.getByRole('searchbox').fill(text);
      await found.getByText('Zélia').waitFor();
      expect(await found.count()).toBe(1);
      await page.keyboard.press('Escape');
    }
    await page.getByRole('searchbox').fill('nobody');
    await page.getByText('No order has this number').waitFor();
    await page.getByRole('searchbox').fill('zelia');
    await found.click();
    await page.getByRole('heading', { name: 'Zélia Souza' }).waitFor();
    expect(page.url()).toContain(encodeId('customer', rows[0].id));
    // Also from a record.
    await page.getByRole('searchbox').fill('zelia');
    await found.waitFor();
  });

  it('says what to do if nothing matches', { tags: ['slow'] }, async ({ show }) => {
    const { page, loaded } = await show('/#period=last7&timezone=UTC&status=all&utm_source=none');
    expect(await card(page, 'Orders').textContent()).toBe('0');
    await page.getByRole('button', { name: 'Remove all filters' }).click();
    await loaded();
    expect(await card(page, 'Orders').textContent()).toBe('6');
  });
});
