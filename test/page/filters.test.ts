import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { hasBrowser, violationsOf } from './browser.ts';
import { test as base } from './opened-page.ts';

/** Two customers: the first one buys on a Monday and on a Tuesday, the second one on a Tuesday night, which is Wednesday in UTC. */
const orders = [
  { customer: 0, created_at: '2026-01-05T15:00:00Z', utm_source: 'google' },
  { customer: 0, created_at: '2026-01-06T15:00:00Z', utm_source: 'facebook' },
  { customer: 1, created_at: '2026-01-07T02:30:00Z', utm_source: 'google' },
  { customer: 1, created_at: '2026-01-08T15:00:00Z', payment_status: 'pending' },
] as const;

const it = base.extend('filteredSecret', { scope: 'file' }, async ({ database: { pool } }) => {
  const organizationId = await addOrganization(pool, 'Loja das Horas');
  const customers = [
    await addCustomer(pool, organizationId),
    await addCustomer(pool, organizationId),
  ];
  for (const [index, { customer, ...values }] of orders.entries()) {
    await addPurchase(pool, organizationId, {
      ...{
        customer_id: customers[customer] as bigint,
        purchase_value_in_cents: 1_000 * (index + 1),
      },
      ...{ currency: 'BRL', payment_status: 'paid', platform: 'shopify' },
      coupons: JSON.stringify([{ code: index === 0 ? 'VERAO10' : 'NATAL' }, { code: 'FRETE' }]),
      ...values,
    });
  }
  return (await addKey(pool, organizationId)).secret;
});

const period = '/#period=custom&from=2026-01-01&to=2026-01-27&timezone=America/Sao_Paulo';

const textsOf = async (page: Page, selector: string) =>
  (await page.locator(selector).allTextContents()).map((text) => text.replace(/\s/g, ' '));
const stateOf = (page: Page) => new URLSearchParams(new URL(page.url()).hash.slice(1));
const countOf = (page: Page) =>
  page.locator('[data-measure=purchase_count] .card-value').textContent();

describe.runIf(hasBrowser)('the filters of the page', { tags: ['slow'] }, () => {
  it.for([
    {
      ...{
        locale: 'en-US',
        row: 'Tuesday',
        chips: ['WeekdayTuesday×', 'Hour of the day11:00 PM×'],
      },
      remove: 'Remove the filter Weekday Tuesday',
      announced: '1 order',
    },
    {
      ...{ locale: 'pt-BR', row: 'terça-feira' },
      chips: ['Dia da semanaterça-feira×', 'Hora do dia23:00×'],
      remove: 'Remover o filtro Dia da semana terça-feira',
      announced: '1 pedido',
    },
  ])(
    'filter by a weekday and an hour of the ranking: $locale',
    async ({ locale, row, chips, remove, announced }, { open, filteredSecret, worker }) => {
      await worker.syncAll();
      const { page, requests, enter, loaded, save } = await open(`${period}&group_by=weekday`, {
        locale,
      });
      await enter(filteredSecret);
      await page.locator('#ranking').getByRole('button', { name: row }).press('Enter');
      await loaded();
      expect(stateOf(page).get('weekday')).toBe('2');
      // 11:30 pm on Tuesday is Wednesday in UTC.
      expect(await countOf(page)).toBe('2');
      expect(await page.locator('#purchases tbody tr').count()).toBe(2);

      await page.goto(new URL(`${period}&group_by=weekday&then_by=hour_of_day`, page.url()).href);
      await loaded();
      await page
        .locator('#ranking')
        .getByRole('button', { name: /11:00 PM|23:00/ })
        .click();
      await loaded();
      expect(await textsOf(page, '#chips li')).toEqual(chips);
      expect(await countOf(page)).toBe('1');
      expect(await page.locator('#status').textContent()).toBe(announced);
      expect(await violationsOf(page)).toEqual([]);
      const [parquet] = await textsOf(page, '#requests .request:last-child code');
      expect(parquet).toContain('timezone=America%2FSao_Paulo');
      const exported = requests.length;
      await page.evaluate('delete window.showSaveFilePicker');
      await save('all');
      expect(requests.slice(exported).map((request) => request.url())).toEqual([
        expect.stringContaining('weekday=2&hour_of_day=23'),
      ]);

      await page.reload();
      await loaded();
      expect(await countOf(page)).toBe('1');
      await page.getByRole('button', { name: remove }).press('Enter');
      await loaded();
      expect(await textsOf(page, '#chips li')).toEqual(chips.slice(1));
      expect(await page.locator('.problem:visible, .banner').count()).toBe(0);
    },
  );

  it.for([
    {
      locale: 'en-US',
      row: 'Returning',
      chip: 'New or returningReturning×',
      text: 'does not apply',
    },
    {
      ...{ locale: 'pt-BR', row: 'Recorrentes', chip: 'Novo ou recorrenteRecorrentes×' },
      text: 'não se aplica',
    },
  ])(
    'filter by returning customers, and say which parts cannot: $locale',
    async ({ locale, row, chip, text }, { open, filteredSecret }) => {
      const { page, requests, enter, loaded } = await open(period, { locale });
      await enter(filteredSecret);
      const before = requests.length;
      await page.locator('#customer-types').getByRole('button', { name: row }).press('Enter');
      await loaded();
      expect(stateOf(page).get('customer_type')).toBe('returning');
      expect(await textsOf(page, '#chips li')).toEqual([chip]);
      expect(await countOf(page)).toBe('1');
      expect(await page.evaluate('document.activeElement.id')).toBe('customer_types-title');
      const silent = ['#sales', '#purchases', '#cohorts', '.download .hint'];
      for (const part of silent) expect(await page.locator(part).textContent()).toContain(text);
      expect(await page.locator('.download .downloads button').count()).toBe(0);
      const urls = requests.slice(before).map((request) => request.url());
      expect(urls.filter((url) => /purchases\?|export|cohorts|group_by=status/.test(url))).toEqual(
        [],
      );
      expect(await page.locator('.problem:visible, .banner').count()).toBe(0);
      expect(await violationsOf(page)).toEqual([]);

      await page.locator('#chips button').last().click();
      await loaded();
      expect(await page.locator('#purchases tbody tr').count()).toBe(3);
      expect(await page.locator('#cohorts tbody tr').count()).toBeGreaterThan(0);
    },
  );

  it.for([
    {
      ...{ locale: 'en-US', is: 'Sourceisgoogle×', isNot: 'Sourceis notgoogle×' },
      ...{ further: 'norfacebook×', add: 'Add filter', apply: 'Apply', announced: '1 order' },
      negate: 'Source is google: change to is not',
      restore: 'Source is not google: change to is',
      remove: 'Remove the filter Source is not google',
    },
    {
      ...{ locale: 'pt-BR', is: 'Origemégoogle×', isNot: 'Origemnão égoogle×' },
      ...{ further: 'nemfacebook×', add: 'Adicionar filtro', apply: 'Aplicar' },
      ...{ announced: '1 pedido', negate: 'Origem é google: mudar para não é' },
      restore: 'Origem não é google: mudar para é',
      remove: 'Remover o filtro Origem não é google',
    },
  ])(
    'exclude the values of a label, and select them again: $locale',
    async (words, { open, filteredSecret, worker }) => {
      await worker.syncAll();
      const { page, requests, enter, loaded } = await open(`${period}&utm_source=google`, {
        locale: words.locale,
      });
      await enter(filteredSecret);
      expect(await textsOf(page, '#chips li')).toEqual([words.is]);
      expect(await countOf(page)).toBe('2');
      const before = requests.length;
      await page.getByRole('button', { name: words.negate }).press('Enter');
      await loaded();
      expect(stateOf(page).getAll('not')).toEqual(['utm_source:google']);
      expect(stateOf(page).has('utm_source')).toBe(false);
      expect(await textsOf(page, '#chips li')).toEqual([words.isNot]);
      expect(await countOf(page)).toBe('1');
      expect(await page.locator('#status').textContent()).toBe(words.announced);
      const urls = requests.slice(before).map((request) => request.url());
      const ofPurchases = urls.filter((url) => url.includes('/v1/purchases'));
      expect(ofPurchases.length).toBeGreaterThan(6);
      for (const url of ofPurchases) expect(url).toContain('not=utm_source%3Agoogle');
      // The control keeps the focus.
      const label = await page.evaluate('document.activeElement.ariaLabel');
      expect(label).toBe(words.restore);
      expect(await violationsOf(page)).toEqual([]);
      await page.reload();
      await loaded();
      await page.getByRole('button', { name: words.restore }).press('Space');
      await loaded();
      expect(stateOf(page).getAll('utm_source')).toEqual(['google']);
      expect(stateOf(page).has('not')).toBe(false);

      await page.getByRole('button', { name: words.add }).click();
      await page.locator('#filter-name').selectOption('utm_source');
      await page.locator('#filter-operator').selectOption('not');
      await page.locator('#filter-input').fill('facebook');
      await page.getByRole('button', { name: words.apply }).click();
      await loaded();
      // Selected values have made place.
      expect(stateOf(page).getAll('not')).toEqual(['utm_source:facebook']);
      expect(await countOf(page)).toBe('2');
      await page.goto(
        new URL(`${period}&not=utm_source:google&not=utm_source:facebook`, page.url()).href,
      );
      await loaded();
      expect(await textsOf(page, '#chips li')).toEqual([words.isNot, words.further]);
      expect(await countOf(page)).toBe('0');
      await page.getByRole('button', { name: words.remove }).click();
      await loaded();
      expect(stateOf(page).getAll('not')).toEqual(['utm_source:facebook']);
    },
  );

  it.for(['weekday', 'hour_of_day', 'customer_type', 'coupon'])(
    'lead a ranking by %s back to it once they are removed',
    async (dimension, { open, filteredSecret }) => {
      const { page, enter, loaded } = await open(`${period}&group_by=${dimension}`);
      await enter(filteredSecret);
      const ranked = () => page.locator('#dimension').inputValue();
      for (const next of ['utm_source', 'utm_medium']) {
        await page.locator('#ranking .link').first().click();
        await loaded();
        expect(await ranked()).toBe(next);
      }
      expect(stateOf(page).has(dimension)).toBe(true);
      await page.reload();
      await loaded();
      await page.getByRole('button', { name: 'Remove the filter Source' }).click();
      await loaded();
      expect(await ranked()).toBe('utm_source');
      await page.locator('#chips button').last().click();
      await loaded();
      expect(await page.locator('#chips li').count()).toBe(0);
      expect(await ranked()).toBe(dimension);
    },
  );

  it('lead a ranking back to where it began once all are removed, and not if they came from elsewhere', async ({
    open,
    filteredSecret,
  }) => {
    const { page, enter, loaded } = await open(`${period}&group_by=weekday&then_by=platform`);
    await enter(filteredSecret);
    const ranked = () => page.locator('#dimension').inputValue();
    const removeAll = async () => {
      while ((await page.locator('#chips li').count()) > 0) {
        await page.locator('#chips button').last().click();
        await loaded();
      }
    };
    await page.locator('#ranking .link').first().click();
    await loaded();
    expect(await page.locator('#chips li').count()).toBe(2);
    await removeAll();
    expect(await ranked()).toBe('weekday');

    await page.locator('#dimension').selectOption('Source');
    await page.locator('#add-filter').click();
    await page.locator('#filter-name').selectOption('platform');
    await page.locator('#filter-input').selectOption('shopify');
    await page.getByRole('button', { name: 'Apply' }).click();
    await loaded();
    await removeAll();
    expect(await ranked()).toBe('utm_source');

    // A dimension that the user chooses stays.
    await page.locator('#dimension').selectOption('Coupon');
    await loaded();
    await page.locator('#ranking .link').first().click();
    await loaded();
    await page.locator('#dimension').selectOption('Day');
    await loaded();
    await removeAll();
    expect(await ranked()).toBe('day');
  });

  it.for([
    ['utm_term', 'a b:c', 'Term'],
    ['status', 'pending', 'Payment status'],
    ['currency', 'BRL', 'Currency'],
  ] as const)(
    'have a chip of their own for a value that a link selects and excludes: %s',
    async ([name, value, label], { open, filteredSecret }) => {
      const link = new URLSearchParams([
        [name, value],
        [name, name === 'currency' ? 'EUR' : value],
        ['not', `${name}:${value}`],
        ['not', `${name}:${value}`],
      ]);
      const { page, errors, enter, loaded } = await open(`${period}&${link}`);
      await enter(filteredSecret);
      const chips = () => textsOf(page, '#chips li');
      const selected = name === 'currency' ? [`${label}isBRL×`, 'orEUR×'] : [`${label}is${value}×`];
      expect(await chips()).toEqual([...selected, `${label}is not${value}×`]);
      await page
        .getByRole('button', { name: `Remove the filter ${label} ${value}`, exact: true })
        .click();
      await loaded();
      const left = name === 'currency' ? [`${label}isEUR×`] : [];
      expect(await chips()).toEqual([...left, `${label}is not${value}×`]);
      await page
        .getByRole('button', { name: `Remove the filter ${label} is not ${value}` })
        .click();
      await loaded();
      expect(await chips()).toEqual(left);
      expect(errors).toEqual([]);
    },
  );

  it('count orders of all payment statuses but excluded ones', async ({ open, filteredSecret }) => {
    const { page, enter, loaded } = await open(`${period}&status=all&not=status:paid`);
    await enter(filteredSecret);
    expect(await textsOf(page, '#chips li')).toEqual(['Payment statusis notpaid×']);
    expect(await countOf(page)).toBe('1');
    expect(await page.locator('[name=payment-status]:checked').count()).toBe(0);
    expect(await page.locator('[data-step=created] strong').textContent()).toBe('4');
    await page.locator('[data-step=created]').click();
    await loaded();
    expect(stateOf(page).has('not')).toBe(false);
    expect(await countOf(page)).toBe('4');
  });

  it('say that a link excludes a value of no filter', async ({ open, filteredSecret }) => {
    const { page, enter } = await open(`${period}&not=weekday:1&not=utm_source:`);
    await enter(filteredSecret);
    expect(await page.locator('#chips li').count()).toBe(0);
    expect(await page.locator('#filter-problem').textContent()).toContain('not=');
  });

  it('say that a link has a weekday or an hour that does not exist', async ({
    open,
    filteredSecret,
  }) => {
    const { page, enter } = await open(`${period}&weekday=9,2&hour_of_day=x`);
    await enter(filteredSecret);
    expect(await textsOf(page, '#chips li')).toEqual(['WeekdayTuesday×']);
    expect(await page.locator('#filter-problem').textContent()).toMatch(/hour_of_day=x|weekday=9/);
  });
});
