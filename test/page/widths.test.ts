import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { addRow } from '../support/rows.ts';
import { addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { hasBrowser, overflowOf, violationsOf } from './browser.ts';
import { test as base } from './opened-page.ts';

const label = 'Ação_'.repeat(51);

/** A shop with labels of 255 characters without a space, two currencies and a customer without a name. */
const it = base.extend('wideSecret', { scope: 'file' }, async ({ database: { pool } }) => {
  const organization_id = await addOrganization(pool, 'Livraria e Papelaria Ipê-Amarelo do Brás');
  const customer_id = await addRow(pool, 'customers', { organization_id, name: '' });
  for (const [index, currency] of ['BRL', 'BRL', 'EUR'].entries()) {
    await addPurchase(pool, organization_id, {
      ...{ customer_id, currency, payment_status: 'paid', platform: 'woocommerce' },
      ...{ utm_source: `${index}${label}`, utm_campaign: label, order_number: label },
      ...{ created_at: `2026-01-1${index}T12:00:00Z`, purchase_value_in_cents: 1_234_567_89 },
    });
  }
  return (await addKey(pool, organization_id)).secret;
});

const widths = Array.from({ length: 57 }, (_, index) => 320 + 20 * index).concat(1366);

/** Windows of phones, tablets and desktops, also at 200 %. */
const usualWidths = [320, 350, 390, 512, 700, 720, 768, 900, 1024, 1366, 1440];

/** Of A4 without margins. */
const paperWidth = 718;

/** The innermost elements that are wider than the window, outside of what scrolls by itself. */
const wide = `[...document.querySelectorAll('body *')].filter((element) => {
  const isWide = (one) => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1;
  const isCut = (one) => one !== document.body && (getComputedStyle(one).overflowX !== 'visible' || isCut(one.parentElement));
  return isWide(element) && !isCut(element.parentElement) && ![...element.children].some(isWide);
}).map(({ tagName, id, className }) => [tagName.toLowerCase(), id, className].join(' '))`;

/** The widths of a window, in pixels, in which something is wider than the window. */
async function tooNarrow(page: Page, among = widths): Promise<string[]> {
  const wrong: string[] = [];
  for (const width of among) {
    await page.setViewportSize({ width, height: 900 });
    if ((await overflowOf(page)) > 0) wrong.push(`${width}: ${await page.evaluate(wide)}`);
  }
  return wrong;
}

const period =
  'period=custom&from=2025-12-28&to=2026-01-27&timezone=America/Argentina/Buenos_Aires';

describe.runIf(hasBrowser)('the page', { tags: ['slow'] }, () => {
  it.for(['en-US', 'pt-BR'])(
    'has nothing wider than the window, however wide it is: %s',
    async (locale, { open, wideSecret, worker }) => {
      const { page, context, enter, loaded } = await open(
        `/#${period}&status=all&then_by=utm_campaign&split=groups&compare_to=previous_year_weekdays`,
        { locale },
      );
      await worker.syncAll();
      await enter(wideSecret);
      await page.locator('#legend li').nth(1).waitFor();
      expect(await tooNarrow(page), 'long labels').toEqual([]);

      const hash = new URL(page.url()).hash.replace('status=all', 'status=refunded,pending');
      await page.goto(
        new URL(`/${hash}&min_value_in_cents=100&utm_source=${label}`, page.url()).href,
      );
      await loaded();
      await worker.syncAll();
      await context.clock.fastForward('01:01');
      await expect.poll(() => page.locator('#refresh').textContent()).toMatch(/newer|novos/);
      expect(await tooNarrow(page), 'chips and newer data').toEqual([]);

      await page.locator('#more-controls, #add-filter').first().click();
      if (await page.locator('#add-filter').isVisible()) await page.locator('#add-filter').click();
      await page.locator('#filter-form').waitFor();
      await page.locator('summary').first().click();
      expect(await tooNarrow(page), 'an open form').toEqual([]);

      await page.goto(new URL('/#period=all&timezone=UTC', page.url()).href);
      await loaded();
      expect(await tooNarrow(page), 'all time').toEqual([]);
      await page.locator('#best-customers a').first().click();
      await page.locator('h1').waitFor();
      expect(await tooNarrow(page), 'a customer').toEqual([]);
    },
  );

  it.for([
    { locale: 'en-US', deviceScaleFactor: 1, colorScheme: 'light' },
    { locale: 'pt-BR', deviceScaleFactor: 2, colorScheme: 'dark' },
  ] as const)(
    'has nothing wider than the window in any view or state: $locale, $deviceScaleFactor',
    async (options, { open, wideSecret, fullShop, origin, database: { pool } }) => {
      const check = async (page: Page, state: string, among = usualWidths) =>
        expect(await tooNarrow(page, among), state).toEqual([]);
      const { page, context, enter, loaded } = await open(`/#${period}`, options);
      const visit = async (path: string) => {
        await page.goto(new URL(path, origin).href);
        await loaded();
      };
      await page.locator('#key').fill('ç');
      await page.keyboard.press('Enter');
      await check(page, 'a key that is none');
      await enter(wideSecret);
      const excluded = `not=utm_source:0${label}&not=utm_campaign:x&without=utm_term`;
      await visit(`/#${period}&status=all&group_by=coupon&then_by=shipping_status&${excluded}`);
      await check(page, 'excluded values, and coupons');
      await page.setViewportSize({ width: 320, height: 900 });
      await page.locator('#more-controls').click();
      await page.locator('#add-filter').click();
      await page.locator('#compare-to').selectOption('previous_year_weekdays');
      await loaded();
      await check(page, 'all controls');
      await visit(`/#${period}&customer_type=new&currencies=all&weekday=1,2,3,4,5,6,7`);
      await check(page, 'weekdays, and parts that a filter does not apply to');
      await visit('/#period=custom&from=2026-02-30&group_by=x&platform=amazon&interval=x');
      await check(page, 'a wrong link');
      await visit(`/#${period}&utm_source=none`);
      await check(page, 'no order');
      await visit(`/#${period}`);
      await page.locator('#purchases a').first().click();
      await page.locator('h1').waitFor();
      await check(page, 'an order');
      await page.emulateMedia({ media: 'print' });
      await check(page, 'an order on paper', [paperWidth]);
      await visit(`/#${period}&then_by=utm_campaign`);
      await check(page, 'paper', [paperWidth]);
      await page.emulateMedia({ media: null });
      await context.setOffline(true);
      await page.locator('#refresh').click();
      await page.locator('.banner').waitFor();
      await check(page, 'a failure');
      await context.setOffline(false);

      const full = await open('/app/campaigns', options);
      await full.page.locator('#key').fill(fullShop.secret);
      await full.page.keyboard.press('Enter');
      for (const name of ['campaigns', 'segments', 'flows']) {
        await full.page.goto(new URL(`/app/${name}`, origin).href);
        await full.page.locator('main tbody tr').first().waitFor();
        await check(full.page, name);
        await full.page.locator('main tbody a').first().click();
        await full.page.locator('.record h1').waitFor();
        await check(full.page, `one of ${name}`);
      }
      const none = await open('/#period=all&timezone=UTC', options);
      const organizationId = await addOrganization(pool, 'Ateliê Novo');
      await none.enter((await addKey(pool, organizationId)).secret);
      for (const summary of await none.page.locator('summary').all()) await summary.click();
      await check(none.page, 'an empty shop');
    },
  );

  it('has a link, a title and no accessibility violation for a customer without a name', async ({
    open,
    wideSecret,
  }) => {
    const { page, enter } = await open(`/#${period}`);
    await enter(wideSecret);
    expect(await page.locator('#purchases a').nth(1).textContent()).toMatch(/^cus_/);
    expect(await violationsOf(page)).toEqual([]);
    await page.locator('#best-customers a').click();
    await page.getByRole('heading', { name: 'Customer without a name' }).waitFor();
    expect(await page.title()).toBe('Customer without a name');
    expect(await violationsOf(page)).toEqual([]);
  });

  it('cuts a long label, and has the whole text as its title', async ({ open, wideSecret }) => {
    const { page, enter } = await open(`/#${period}&split=groups`);
    await enter(wideSecret);
    const place = '.label';
    for (const area of ['#legend', '#ranking']) {
      const one = page.locator(`${area} ${place}`).first();
      expect((await one.boundingBox())?.width).toBeLessThan(400);
      expect(await one.getAttribute('title')).toContain(label);
    }
  });
});
