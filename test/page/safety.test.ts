import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { addKey } from '../support/shop.ts';
import { hasBrowser, overflowOf, violationsOf } from './browser.ts';
import { hostile, test as it, january, januaryBounds, originOf } from './opened-page.ts';

const folders = ['customers', 'segments', 'flows', 'email-campaigns', 'template-campaigns'];

const problems = (page: Page) => page.locator('.problem:visible, .banner:visible');

describe.runIf(hasBrowser)('a browser', { tags: ['slow'] }, () => {
  it('transfers less than 100 KB before a key is entered', async ({ open, origin }) => {
    const { page, context } = await open('/healthz');
    const session = await context.newCDPSession(page);
    let bytes = 0;
    session.on('Network.loadingFinished', ({ encodedDataLength }) => {
      bytes += encodedDataLength;
    });
    await session.send('Network.enable');
    await page.goto(origin, { waitUntil: 'networkidle' });
    await page.getByLabel('API key').waitFor();
    expect(bytes).toBeGreaterThan(1_000);
    expect(bytes).toBeLessThan(100_000);
  });

  it('sends the key to the service alone, as a header, and keeps it out of URLs and storage', async ({
    show,
    origin,
    fullShop,
  }) => {
    const { page, context, requests, loaded } = await show(january);
    await page.getByText('This year').click();
    await loaded();
    await page.locator('#purchases a').first().click();
    await loaded();
    expect(requests.length).toBeGreaterThan(20);
    for (const request of requests) {
      expect(request.url().startsWith(`${origin}/`), request.url()).toBe(true);
      expect(request.url()).not.toContain(fullShop.secret);
      const { authorization = '' } = await request.allHeaders();
      const isData = new URL(request.url()).pathname.startsWith('/v1/');
      expect(authorization).toBe(isData ? `Bearer ${fullShop.secret}` : '');
    }
    expect(page.url()).not.toContain(fullShop.secret);
    expect(await page.evaluate('JSON.stringify(localStorage)')).toBe('{}');
    expect(await context.cookies()).toEqual([]);
    await page.getByRole('button', { name: 'Log out' }).click();
    expect(await page.evaluate('sessionStorage.length')).toBe(0);
  });

  it.for(folders)(
    'shows the record of an html_url: /%s, with hostile text as text',
    async (folder, { show, api, fullShop }) => {
      const list = await api.get(`/v1/${folder}?limit=1`, fullShop.secret);
      const [{ html_url: url }] = list.json().data;
      const { page } = await show(`/app${new URL(url).pathname}`);
      await page.locator('h1', { hasText: `${hostile} name` }).waitFor();
      expect(await page.title()).toBe(`${hostile} name`);
      // Without the logo.
      expect(await page.locator('main img').count()).toBe(0);
      expect(await violationsOf(page)).toEqual([]);
      await page.setViewportSize({ width: 390, height: 844 });
      await page.emulateMedia({ colorScheme: 'dark' });
      expect(await violationsOf(page)).toEqual([]);
      expect(await overflowOf(page)).toBe(0);
    },
  );

  it('is told that a record does not exist', async ({ show }) => {
    const { page } = await show('/app/customers/cus_nobody');
    expect(await problems(page).textContent()).toMatch(/^There is no such record/);
  });

  it('is told why a key is refused, at first and later', async ({ open, database, fullShop }) => {
    const { page, enter, loaded } = await open(january);
    const input = page.getByLabel('API key');
    await input.fill(`${fullShop.secret.slice(0, -1)}!`);
    await page.getByRole('button', { name: 'Show data' }).click();
    await problems(page).waitFor();
    expect(await problems(page).textContent()).toMatch(/does not accept this key/);
    expect(await input.getAttribute('aria-invalid')).toBe('true');

    const { id, secret } = await addKey(database.pool, fullShop.organizationId);
    await enter(secret);
    await database.pool.query('update api_keys set revoked_at = now() where id = $1', [id]);
    await page.getByRole('button', { name: 'Refresh' }).click();
    await input.waitFor();
    expect(await problems(page).textContent()).toMatch(/does not accept this key/);
    expect(await page.evaluate('sessionStorage.length')).toBe(0);
    await enter(fullShop.secret);
    await loaded();
  });

  it('is shown an error beside the control that caused it', async ({ show }) => {
    const { page } = await show('/#period=custom&from=1990-01-01&to=2026-01-31&interval=hour');
    const chart = page.locator('section', { has: page.locator('#chart') });
    expect(await problems(chart as never).textContent()).toMatch(/Choose a longer interval/);
    expect(await page.locator('#totals button').count()).toBe(4);
    await page.locator('#interval').selectOption('Month');
    await page.locator('#chart canvas').waitFor();
    expect(await problems(page).count()).toBe(0);
    await page.goto(new URL('/#period=all&customer_id=nobody', page.url()).href);
    await page.locator('#filter-problem').waitFor();
    expect(await problems(page).textContent()).toBe(
      'Customer must be an id that begins with cus_.',
    );
  });

  it('is told that the service cannot be reached, or for how long to wait, and can try again', async ({
    show,
    startApi,
  }) => {
    const { page, context } = await show(january);
    await context.setOffline(true);
    await page.getByRole('button', { name: 'Refresh' }).click();
    await problems(page).waitFor();
    expect(await problems(page).textContent()).toMatch(/cannot be reached/);
    await context.setOffline(false);
    await page.getByRole('button', { name: 'Try again' }).click();
    await problems(page).waitFor({ state: 'hidden' });

    const limited = await startApi({ rateLimitPerMinute: 3 });
    await limited.app.listen({ host: '127.0.0.1', port: 0 });
    const other = await show(january, { origin: originOf(limited) });
    expect(await problems(other.page).innerText()).toMatch(
      /Too many requests\. Try again in \d+ seconds?\.\s+Try again$/,
    );
  });

  it('saves an export as it arrives where it can', async ({ open, api, fullShop }) => {
    const { page, enter } = await open(january);
    // A real file of the browser, in place of the dialog that only a person can answer.
    await page.evaluate(`window.showSaveFilePicker = async ({ suggestedName }) =>
      (await navigator.storage.getDirectory()).getFileHandle(suggestedName, { create: true })`);
    await enter(fullShop.secret);
    await page.locator('[data-download=all]').click();
    await page.getByText(/ saved$/).waitFor();
    const saved = await page.evaluate(`(async () => {
      const folder = await navigator.storage.getDirectory();
      return (await (await folder.getFileHandle('purchases.csv')).getFile()).text();
    })()`);
    const path = `/v1/purchases/export?${januaryBounds}&format=csv_excel`;
    const { body } = await api.get(path, fullShop.secret);
    const [header = '', first = ''] = body.replace('\ufeff', '').split('\r\n');
    const [savedHeader = '', savedFirst = '', ...others] = String(saved).split('\r\n');
    expect(savedHeader.split(',')[0]).toBe(header.split(',')[0]);
    expect(savedFirst.split(',')[0]).toBe(first.split(',')[0]);
    expect(others).toHaveLength(27);
  });
});
