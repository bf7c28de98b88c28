import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { seedDatabase } from '../../src/seed/seed-database.ts';
import { addRow } from '../support/rows.ts';
import { addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { hasBrowser, overflowOf, violationsOf } from './browser.ts';
import { addGrowingShop, test as base, january } from './opened-page.ts';

const statuses = ['paid', 'paid', 'pending', 'authorized', 'abandoned', 'refunded', 'voided'];

const coupons = ['VERAO10', 'FRETE'].map((code) => ({
  id: '1',
  code,
  value: 10,
  type: 'percentage',
}));

/** A shop with an order of each status each day, from two sources and a third one for the first. */
const it = base.extend('ownShop', { scope: 'file' }, async ({ database: { pool } }) => {
  const organizationId = await addOrganization(pool, 'Ateliê Jabuticaba');
  const customer_id = await addRow(pool, 'customers', {
    ...{ organization_id: organizationId, name: 'Zélia Souza', phone: '+55 11 98765-4321' },
  });
  const ids: bigint[] = [];
  for (const [index, payment_status] of statuses.entries()) {
    ids.push(
      await addPurchase(pool, organizationId, {
        ...{ customer_id, payment_status, currency: 'BRL', order_number: `#${1001 + index}` },
        ...{ purchase_value_in_cents: 10_000 + index, discount_in_cents: 500 },
        ...{ shipping_cost_customer_in_cents: 1_250, platform: 'shopify', status: 'open' },
        coupons: JSON.stringify(index === 1 ? [] : coupons),
        utm_source: ['google', 'facebook', 'email'][index % 3] ?? null,
        created_at: `2026-01-2${index}T12:00:00Z`,
      }),
    );
  }
  const { secret } = await addKey(pool, organizationId);
  return { organizationId, secret, ids };
});

const texts = async (page: Page, selector: string) =>
  (await page.locator(selector).allTextContents()).map((text) => text.replace(/\s/g, ' '));
const state = (page: Page) => new URLSearchParams(new URL(page.url()).hash.slice(1));

describe.runIf(hasBrowser)('the page of an owner', { tags: ['slow'] }, () => {
  it('has today, yesterday and the last month, and the values before beside the changes', async ({
    open,
    ownShop,
    worker,
  }) => {
    await worker.syncAll();
    const { page, enter, loaded } = await open('/#period=today&timezone=UTC&status=all');
    await enter(ownShop.secret);
    const dates = async () => (await texts(page, '#dates-shown p')).join().replace(' UTC', '');
    expect(await dates()).toBe('Jan 28, 2026');
    await page.getByText('Yesterday', { exact: true }).click();
    await loaded();
    expect(await dates()).toBe('Jan 27, 2026');
    await page.getByText('Last month', { exact: true }).click();
    await loaded();
    expect(await dates()).toBe('Dec 1 – 31, 2025');
    expect(state(page).get('compare_to')).toBe('previous_month');
    await page.goto(
      new URL('/#period=custom&from=2026-01-24&to=2026-01-27&timezone=UTC&status=all', page.url())
        .href,
    );
    await loaded();
    expect(await texts(page, '#totals .card')).toEqual([
      'Order valueR$300.15-25%before: R$400.06 in Jan 20 – 23, 2026',
      'Orders3-25%before: 4 in Jan 20 – 23, 2026',
      'Customers10%before: 1 in Jan 20 – 23, 2026',
      'Average ticketR$100.050%before: R$100.02 in Jan 20 – 23, 2026',
    ]);
  });

  it('has a row of orders from their creation to their payment, which filters', async ({
    open,
    ownShop,
  }) => {
    const { page, enter, loaded, save } = await open(january);
    await enter(ownShop.secret);
    const file = String((await save('sales')).bytes)
      .trimEnd()
      .split('\r\n');
    expect(file.slice(1, 4)).toEqual([
      'Orders created,7,700.21,35.00,87.50,BRL',
      'Paid,2,200.01,10.00,25.00,BRL',
      'Pending,2,200.05,10.00,25.00,BRL',
    ]);
    expect(file.at(-1)).toBe('"Paid, with a coupon",1,100.00,5.00,12.50,BRL');
    expect(await texts(page, '#sales .step')).toEqual([
      'Orders created7R$700.21',
      'Paid2R$200.0128.6% of all',
      'Pending2R$200.0528.6% of all',
      'Abandoned1R$100.0414.3% of all',
      'Refunded1R$100.0514.3% of all',
      'Voided1R$100.0614.3% of all',
      'DiscountsR$10.00of paid ones',
      'Shipping chargedR$25.00of paid ones',
      'With a coupon1R$100.0050% of paid',
    ]);
    await page.locator('[data-step=waiting]').click();
    await loaded();
    expect(state(page).get('status')).toBe('pending,authorized');
    expect(await texts(page, '#chips li')).toEqual(['Payment statusispending×', 'orauthorized×']);
    // The row stays: it has any status.
    expect((await texts(page, '#sales .step'))[0]).toBe('Orders created7R$700.21');
    expect(await page.locator('[data-step=waiting]').getAttribute('aria-pressed')).toBe('true');
  });

  it('leads from each list to an order, which has a page', async ({ open, ownShop }) => {
    const { page, enter } = await open(january);
    await enter(ownShop.secret);
    await page.locator('#purchases a', { hasText: '#1007' }).click();
    await page.getByRole('heading', { name: '#1007' }).waitFor();
    expect(await page.title()).toBe('#1007');
    expect(await texts(page, '.record .kind')).toEqual(['Order']);
    expect(await texts(page, '.record .badge')).toEqual(['voided']);
    const facts = await texts(page, '.record .facts > div');
    expect(facts).toEqual(
      expect.arrayContaining([
        'CustomerZélia Souza',
        'ValueR$100.06',
        'DiscountsR$5.00',
        'Shipping chargedR$12.50',
        'Order statusopen',
      ]),
    );
    expect(await texts(page, '#results .panel h2')).toEqual(['Coupons']);
    expect((await texts(page, '#results tbody tr'))[0]).toBe('VERAO1010percentage');
    expect(await violationsOf(page)).toEqual([]);
    await page.getByRole('link', { name: 'Zélia Souza' }).click();
    await page.getByRole('heading', { name: 'Zélia Souza' }).waitFor();
    await page.locator('.purchase-list a', { hasText: '#1003' }).click();
    await page.getByRole('heading', { name: '#1003' }).waitFor();
  });

  it('finds orders by number, customers, and any record by its id', async ({ open, ownShop }) => {
    const { page, enter } = await open(january);
    await enter(ownShop.secret);
    const field = page.getByRole('searchbox');
    const found = page.locator('#found a');
    for (const text of ['1003', '#1003', encodeId('purchase', ownShop.ids[2] as bigint)]) {
      await field.fill(text);
      await found.getByText('1003').waitFor();
      expect(await found.count()).toBe(1);
      await page.keyboard.press('Escape');
    }
    for (const text of ['zelia', '98765-4321', '987654321', '(11) 98765', '6543']) {
      await field.fill(text);
      await found.getByText('Zélia').waitFor();
      expect(await found.count()).toBe(1);
      await page.keyboard.press('Escape');
    }
    await field.fill('pur_nothing');
    await page.getByText('No order has this number').waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await field.fill('1003');
    await found.waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await found.click();
    await page.getByRole('heading', { name: '#1003' }).waitFor();
  });

  it('has one navigation to orders, campaigns, segments and flows', async ({ show }) => {
    const { page } = await show(january);
    const entries = page.getByRole('navigation', { name: 'Sections' }).getByRole('link');
    expect(await entries.allTextContents()).toEqual(['Orders', 'Campaigns', 'Segments', 'Flows']);
    for (const [name, folder] of [
      ['Campaigns', 'email-campaigns'],
      ['Campaigns', 'template-campaigns'],
      ['Segments', 'segments'],
      ['Flows', 'flows'],
    ]) {
      await entries.getByText(name as string).click();
      await page.getByRole('heading', { name: name as string, level: 1 }).waitFor();
      const links = page.locator(`main a[href^="/app/${folder}/"]`);
      await links.first().waitFor();
      expect(await violationsOf(page)).toEqual([]);
      expect(await page.locator('.sections [aria-current]').textContent()).toBe(name);
      const panel = page.locator('section.panel', { has: links });
      const more = panel.getByRole('button', { name: 'Load more' });
      if ((await more.count()) > 0) {
        const before = await links.count();
        await more.click();
        await links.nth(before).waitFor();
      }
      await links.first().click();
      await page.locator('.record h1').waitFor();
    }
    await entries.getByText('Orders').click();
    await page.locator('#totals .card').first().waitFor();
  });

  it('filters by several values, and by all others', async ({ open, ownShop }) => {
    const { page, enter, loaded } = await open(january);
    await enter(ownShop.secret);
    const count = page.locator('[data-measure=purchase_count] .card-value');
    const add = async (filter: string, value: string, isNegated = false) => {
      await page.locator('#add-filter').click();
      await page.locator('#filter-name').selectOption(filter);
      if (isNegated) await page.locator('#filter-operator').selectOption('not');
      const input = page.locator('#filter-input');
      if (filter === 'status') await input.selectOption(value);
      else await input.fill(value);
      if (isNegated) expect(await violationsOf(page)).toEqual([]);
      await page.getByRole('button', { name: 'Apply' }).click();
      await loaded();
    };
    await add('utm_source', 'google');
    expect(await count.textContent()).toBe('3');
    await add('utm_source', 'facebook');
    expect(await count.textContent()).toBe('5');
    expect(await texts(page, '#chips li')).toEqual(['Sourceisgoogle×', 'orfacebook×']);
    expect(state(page).getAll('utm_source')).toEqual(['google', 'facebook']);
    await page.getByRole('button', { name: 'Remove the filter Source google' }).click();
    await loaded();
    expect(await count.textContent()).toBe('2');
    await add('status', 'abandoned', true);
    expect(await count.textContent()).toBe('1');
    expect((await texts(page, '#chips li')).toSorted()).toEqual([
      'Payment statusis notabandoned×',
      'Sourceisfacebook×',
    ]);
    await page.reload();
    await loaded();
    expect(await page.locator('#chips li').count()).toBe(2);
    await page.getByRole('button', { name: 'Remove the filter Payment status' }).click();
    await loaded();
    expect(state(page).get('status')).toBe('paid');
  });

  it('takes days of the chart as the period, by pointer and by keyboard', async ({
    open,
    ownShop,
  }) => {
    const { page, enter, loaded } = await open(january);
    await enter(ownShop.secret);
    const box = await page.locator('.u-over').boundingBox();
    if (box === null) throw new Error('no chart');
    const at = (day: number) => box.x + (box.width * (day - 1)) / 26;
    await page.mouse.move(at(19.6), box.y + 50);
    await page.mouse.down();
    await page.mouse.move(at(23.4), box.y + 60, { steps: 5 });
    await page.mouse.up();
    await loaded();
    expect(state(page).get('from')).toBe('2026-01-20');
    expect(state(page).get('to')).toBe('2026-01-23');
    await page.getByText('Show as a table').click();
    expect(await violationsOf(page)).toEqual([]);
    await page.getByRole('button', { name: 'Jan 22, 2026' }).press('Enter');
    await loaded();
    expect([state(page).get('from'), state(page).get('to')]).toEqual(['2026-01-22', '2026-01-22']);
  });

  it('refreshes by itself if its user wants that, without a jump', async ({
    open,
    database: { pool },
    worker,
  }) => {
    const { secret, add } = await addGrowingShop(pool, {
      created_at: '2026-01-10T12:00:00Z',
      payment_status: 'paid',
    });
    for (let count = 0; count < 15; count += 1) await add();
    await worker.syncAll();
    const { page, context, enter } = await open(january);
    await enter(secret);
    const count = page.locator('[data-measure=purchase_count] .card-value');
    await page.getByRole('button', { name: 'Load more' }).click();
    await page.locator('#purchases tbody tr').nth(14).waitFor();
    const automatic = page.locator('#automatic');
    await page.locator('.settings summary').click();
    await automatic.check();
    expect(await violationsOf(page)).toEqual([]);
    await page.locator('#purchases').scrollIntoViewIfNeeded();
    const place = await page.evaluate('scrollY');
    await add();
    await worker.syncAll();
    await context.clock.fastForward('01:01');
    await count.getByText('16', { exact: true }).waitFor();
    await page.locator('#purchases tbody tr').nth(14).waitFor();
    expect(await page.evaluate('scrollY')).toBe(place);
    await page.reload();
    await page.locator('.settings summary').click();
    expect(await automatic.isChecked()).toBe(true);
    await automatic.uncheck();
    await add();
    await worker.syncAll();
    await context.clock.fastForward('01:01');
    await page.getByRole('button', { name: 'Show newer data' }).waitFor();
    expect(await count.textContent()).toBe('16');
  });

  it('prints figures and tables on two pages, without controls', async ({
    open,
    database: { pool, url },
    worker,
  }) => {
    const [shop] = await seedDatabase(url, {
      ...{ organizations: 1, customers: 400, purchases: 4_000, seed: 42, until: new Date() },
    });
    const { secret } = await addKey(pool, shop?.organizationId as bigint);
    await worker.syncAll();
    for (const [locale, group_by] of [
      ['en-US', 'utm_campaign'],
      ['pt-BR', 'coupon'],
    ] as const) {
      const { page, enter } = await open(`/#period=last90&timezone=UTC&group_by=${group_by}`, {
        ...{ locale, colorScheme: 'dark' },
      });
      await page.clock.setFixedTime(Date.now());
      await page.reload();
      await enter(secret);
      expect(await page.locator('#ranking tbody tr').count()).toBe(10);
      await page.emulateMedia({ media: 'print' });
      expect(await page.locator(':is(button, select, input):visible').allTextContents()).toEqual(
        await page.locator(':is(button.card, button.step, .link):visible').allTextContents(),
      );
      const file = String(await page.pdf({ format: 'A4', printBackground: true }));
      expect(file.match(/\/Type\s*\/Page\b/g)?.length, locale).toBeLessThanOrEqual(2);
      // Also on paper, each table is within its panel.
      await page.setViewportSize({ width: 718, height: 1046 });
      for (const panel of ['series', 'sales', 'ranking', 'cohorts', 'customers', 'purchases']) {
        const section = `[aria-labelledby=${panel}-title]`;
        expect(await overflowOf(page, section), `${locale} ${panel}`).toBeLessThanOrEqual(0);
      }
    }
  });

  it('leads an empty shop to its first orders, and says whether they would arrive', async ({
    open,
    database,
    worker,
  }) => {
    const organizationId = await addOrganization(database.pool, 'New shop');
    const { secret } = await addKey(database.pool, organizationId);
    await worker.syncAll();
    const { page, enter } = await open('/#period=all&timezone=UTC', { locale: 'pt-BR' });
    await enter(secret);
    const lines = await texts(page, '.first-purchase > *');
    expect(lines[0]).toBe('Ainda não há pedidos.');
    expect(lines.slice(0, -1).join()).not.toContain('insert into');
    expect(await texts(page, '#worker p')).toEqual([
      expect.stringMatching(/^O serviço está conectado e leu o banco de dados às \d\d:\d\d\.$/),
    ]);
    expect(await violationsOf(page)).toEqual([]);
    await page.route('**/readyz', (route) =>
      route.fulfill({ status: 503, json: { status: 'unavailable', problem: 'No tick.' } }),
    );
    await page.getByRole('button', { name: 'Atualizar' }).click();
    await page.locator('#worker code').getByText('No tick.').waitFor();
  });
});
