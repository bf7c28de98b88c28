import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { groupLabel } from '../../src/page/browser/display/dimensions.ts';
import { texts as en } from '../../src/page/browser/language/en.ts';
import { texts as pt } from '../../src/page/browser/language/pt.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { hasBrowser } from './browser.ts';
import { test as it, january, paidJanuary } from './opened-page.ts';

/** The key of a shop with one paid purchase of one customer at each instant. */
async function addShop({ pool }: TestDatabase, ...instants: readonly string[]): Promise<string> {
  const organizationId = await addOrganization(pool);
  const customer_id = await addCustomer(pool, organizationId);
  for (const [index, created_at] of instants.entries()) {
    await addPurchase(pool, organizationId, {
      ...{ customer_id, created_at, payment_status: 'paid', currency: 'BRL' },
      ...{ utm_source: index === 0 ? 'google' : 'facebook', platform: 'shopify' },
    });
  }
  return (await addKey(pool, organizationId)).secret;
}

/** The texts of elements, with plain spaces. */
const texts = async (page: Page, selector: string) =>
  (await page.locator(selector).allTextContents()).map((text) => text.replace(/\s/g, ' '));

describe('a status', () => {
  it.for([
    ['English', en.statuses],
    ['Portuguese', pt.statuses],
  ] as const)('reads like no other one, in %s', ([, statuses]) => {
    expect(new Set(Object.values(statuses)).size).toBe(Object.keys(statuses).length);
  });
});

it('has a label that reads like a group without a value in quotes', () => {
  const labels = [null, '', 'No source', 'Empty text', 'google'];
  expect(labels.map((key) => groupLabel('utm_source', key, 'UTC'))).toEqual([
    ...['No source', 'Empty text', '“No source”', '“Empty text”', 'google'],
  ]);
});

describe.runIf(hasBrowser)('the page', { tags: ['slow'] }, () => {
  it.for([
    ['pt-BR', ['enviado', 'não enviado', 'não processado', 'processado', 'unknown', '“enviado”']],
    ['en-US', ['enviado', 'fulfilled', 'shipped', 'unfulfilled', 'unknown', 'unshipped']],
  ] as const)(
    'has no two statuses that read alike, also if the shop writes a translation: %s',
    async ([locale, expected], { open, database: { pool }, worker }) => {
      const organizationId = await addOrganization(pool);
      const customer_id = await addCustomer(pool, organizationId);
      const statuses = ['shipped', 'unshipped', 'fulfilled', 'unfulfilled', 'enviado', 'unknown'];
      for (const shipping_status of statuses) {
        const values = { created_at: '2026-01-10T12:00:00Z', payment_status: 'paid' };
        await addPurchase(pool, organizationId, { ...values, customer_id, shipping_status });
      }
      const { secret } = await addKey(pool, organizationId);
      await worker.syncAll();
      const { page, enter } = await open(`${paidJanuary}&group_by=shipping_status`, { locale });
      await enter(secret);
      expect((await texts(page, '#ranking tbody th')).toSorted()).toEqual(expected);
    },
  );

  it('says that a past period has a part of a week, and not that the week goes on', async ({
    show,
  }) => {
    const { page, loaded } = await show(`${january}&interval=week&compare_to=none`);
    expect(await texts(page, '#legend li')).toEqual(['Jan 1 – 27, 2026', 'incomplete week']);
    await page.locator('#interval').selectOption('Month');
    await loaded();
    expect((await texts(page, '#legend li'))[1]).toBe('incomplete month');
    // All days of two weeks.
    await page.goto(
      new URL('/#period=custom&from=2026-01-04&to=2026-01-17&interval=week', page.url()).href,
    );
    await loaded();
    expect(await texts(page, '#legend li')).not.toContain('incomplete week');
  });

  it('has shares of the chosen measure, and no average of nothing', async ({
    open,
    database,
    worker,
  }) => {
    // The first purchase is in the compared time.
    const secret = await addShop(database, '2025-12-20T12:00:00Z', '2026-01-10T12:00:00Z');
    await worker.syncAll();
    const { page, enter, loaded } = await open(paidJanuary);
    await enter(secret);
    const rows = () => texts(page, '#ranking tbody tr');
    const header = () => texts(page, '#ranking thead th');
    expect(await header()).toContain('% of total sales');
    expect(await rows()).toEqual(['facebookR$1.00new100%1R$1.00', 'googleR$0.00-100%0%0–']);
    await page.locator('[data-measure=customer_count]').click();
    await loaded();
    expect((await header()).slice(1, 4)).toEqual(['Customers', 'Change', '% of all customers']);
    await page.locator('#all-statuses').check({ force: true });
    await loaded();
    expect(await header()).toContain('Order value');
    expect(await page.locator('#not-sales').isVisible()).toBe(true);
  });

  it('names the time zone of a link if it is not that of the browser', async ({ show }) => {
    const { page, loaded } = await show(january.replace('UTC', 'Asia/Tokyo'));
    expect(await texts(page, '#dates-shown p')).toEqual(['Jan 1 – 27, 2026 Asia/Tokyo']);
    await page.goto(page.url().replace('Asia%2FTokyo', 'America%2FSao_Paulo'));
    await loaded();
    expect(await texts(page, '#dates-shown p')).toEqual(['Jan 1 – 27, 2026']);
  });

  it('shows all time of a young shop by day, and a century by year', async ({
    open,
    database,
    worker,
  }) => {
    const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString();
    const secret = await addShop(database, daysAgo(17), daysAgo(3));
    await worker.syncAll();
    const { page, enter, loaded } = await open('/#period=all&timezone=UTC');
    await page.clock.setFixedTime(Date.now());
    await enter(secret);
    await page.getByText('Show as a table').click();
    expect(await page.locator('#chart-table tbody tr').count()).toBe(15);
    await page.getByText('Requests of this view').click();
    expect((await texts(page, '#requests pre'))[1]).toContain('group_by=day');

    await page.goto(
      new URL('/#period=custom&from=1900-01-01&to=2026-12-31&timezone=UTC', page.url()).href,
    );
    await loaded();
    expect(await page.locator('.problem:visible').count()).toBe(0);
    expect(await page.locator('#interval option:enabled').allTextContents()).toEqual([
      'Automatic',
      'Year',
    ]);
    await page.getByText('Show as a table').click();
    expect(await page.locator('#chart-table tbody tr').count()).toBe(127);
    expect((await texts(page, '#chart-table tbody th')).at(0)).toBe('1900');
  });

  it('says between which days no customer was new', async ({ open, database, worker }) => {
    const secret = await addShop(database, '2019-05-10T12:00:00Z');
    await worker.syncAll();
    const { page, enter } = await open('/#period=all&timezone=UTC');
    await enter(secret);
    expect(await texts(page, '#cohorts')).toEqual([
      'No customer has ordered for the first time in Feb 1, 2025 – Jan 28, 2026.',
    ]);
  });

  it('accepts an amount as it writes it, and ranks as before without the filter of a row', async ({
    show,
  }) => {
    const { page, loaded } = await show(january, { locale: 'pt-BR' });
    await page.locator('#add-filter').click();
    await page.locator('#filter-name').selectOption('min_value_in_cents');
    await page.locator('#filter-input').fill('R$ 1.234,56');
    await page.locator('#filter-form [type=submit]').click();
    await loaded();
    expect(page.url()).toContain('min_value_in_cents=123456');
    expect((await texts(page, '#chips .chip-value'))[0]?.replace('\u00a0', ' ')).toBe(
      'R$ 1.234,56',
    );
    await page.locator('#chips button').last().click();
    await loaded();
    expect(await page.locator('#dimension').inputValue()).toBe('utm_source');
    await page.locator('#ranking .link').first().click();
    await loaded();
    expect(await page.locator('#dimension').inputValue()).toBe('utm_medium');
    await page.locator('#chips button').last().click();
    await loaded();
    expect(await page.locator('#dimension').inputValue()).toBe('utm_source');
  });

  it('says beside the control, in the language of its reader, what is wrong in a link', async ({
    show,
  }) => {
    const { page, loaded } = await show('/#period=custom&from=2026-02-30&to=2026-03-05', {
      locale: 'pt-BR',
    });
    const period = page.locator('#period-problem');
    expect(await period.textContent()).toBe('O link tem um dia que não existe: 2026-02-30.');
    const visit = async (hash: string) => {
      await page.goto(new URL(`/#${hash}`, page.url()).href);
      await loaded();
    };
    await visit('period=custom&from=2026-03-05&to=2026-03-01');
    expect(await period.textContent()).toBe('O período não pode terminar antes de começar.');
    await visit('group_by=cor&timezone=UTC');
    const ranking = page.locator('section', { has: page.locator('#ranking') });
    expect(await ranking.locator('.problem').textContent()).toMatch(/não conhece: group_by=cor\.$/);
    await visit('platform=amazon');
    expect(await page.locator('#filter-problem').textContent()).toBe(
      'O serviço não aceita este valor de Plataforma.',
    );
    await page.locator('#chips button').last().click();
    await loaded();
    expect(await page.locator('.problem:visible').count()).toBe(0);
  });
});
