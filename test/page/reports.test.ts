import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { addRow } from '../support/rows.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { hasBrowser } from './browser.ts';
import { test as it, paidJanuary } from './opened-page.ts';

const card = (page: Page, name: string) =>
  page.locator('#totals button', { hasText: name }).locator('.card-value');
const stateOf = (page: Page) =>
  Object.fromEntries(new URLSearchParams(new URL(page.url()).hash.slice(1)));

describe.runIf(hasBrowser)('the page', () => {
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

  it('counts paid purchases alone, and those of every payment status after one click', {
    tags: ['slow'],
  }, async ({ show }) => {
    const { page, loaded, requests } = await show(paidJanuary);
    expect(stateOf(page)).toMatchObject({ status: 'paid' });
    expect(await card(page, 'Orders').textContent()).toBe('9');
    // The totals are requested twice, and the row of payment statuses has all of them.
    const data = () => [
      ...new Set(
        requests
          .map((one) => one.url())
          .filter((url) => /purchases[/?]/.test(url) && !url.includes('group_by=status')),
      ),
    ];
    expect(data().length).toBe(7);
    for (const url of data()) expect(url).toContain('status=paid');
    await page.getByText('All statuses').click();
    await loaded();
    expect(stateOf(page)).toMatchObject({ status: 'all' });
    expect(await card(page, 'Orders').textContent()).toBe('27');
    for (const url of data().slice(7)) expect(url).not.toContain('status=');
    await page.locator('.segmented').getByText('Paid', { exact: true }).click();
    await loaded();
    expect(await card(page, 'Orders').textContent()).toBe('9');
    // A filter by another status is a chip. Without it, paid purchases are counted again.
    await page.getByRole('button', { name: 'Add filter' }).click();
    await page.getByLabel('Filter', { exact: true }).selectOption('Payment status');
    await page.getByLabel('Value').selectOption('refunded');
    await page.getByRole('button', { name: 'Apply' }).click();
    await loaded();
    expect(stateOf(page)).toMatchObject({ status: 'refunded' });
    await page.getByRole('button', { name: 'Remove the filter Payment status refunded' }).click();
    await loaded();
    expect(await card(page, 'Orders').textContent()).toBe('9');
  });

  it('shows new and returning customers, the best customers, and whether customers come back', {
    tags: ['slow'],
  }, async ({ open, database: { pool }, worker }) => {
    const organizationId = await addOrganization(pool);
    const add = async (customer_id: bigint, created_at: string, purchase_value_in_cents: number) =>
      addPurchase(pool, organizationId, {
        ...{ customer_id, created_at, purchase_value_in_cents },
        ...{ currency: 'BRL', payment_status: 'paid' },
      });
    const ana = await addRow(pool, 'customers', { organization_id: organizationId, name: 'Ana' });
    const bia = await addRow(pool, 'customers', { organization_id: organizationId, name: 'Bia' });
    await add(ana, '2025-11-10T12:00:00Z', 1_000);
    await add(ana, '2026-01-10T12:00:00Z', 3_000);
    await add(bia, '2025-11-11T12:00:00Z', 500);
    await add(await addCustomer(pool, organizationId), '2026-01-12T12:00:00Z', 1_000);
    const { secret } = await addKey(pool, organizationId);
    await worker.syncAll();
    const { page, enter, loaded } = await open(paidJanuary);
    await enter(secret);
    const text = (selector: string) => page.locator(selector).allTextContents();
    expect(await text('#customer-types tbody tr')).toEqual([
      'NewR$10.00new25%11',
      'ReturningR$30.00new75%11',
    ]);
    expect((await text('#best-customers tbody tr'))[0]).toBe('Ana1R$30.00');
    expect(await text('#cohorts tbody th')).toEqual(['Nov 2025', 'Jan 2026', 'All']);
    // Of two customers, one came back in January.
    expect((await text('#cohorts tbody tr'))[0]).toMatch(/^Nov 202520.0%50.0%/);
    await page.locator('#cohort-interval').selectOption('Quarter');
    await loaded();
    expect(stateOf(page)).toMatchObject({ cohort_interval: 'quarter' });
    expect(await text('#cohorts tbody th')).toEqual(['Q4 2025', 'Q1 2026', 'All']);
    await page.locator('#best-customers a').first().click();
    await page.getByRole('heading', { name: 'Ana' }).waitFor();
  });

  it('ranks by two dimensions, and filters by the values of a row, also by missing ones', {
    tags: ['slow'],
  }, async ({ open, database: { pool }, worker }) => {
    const organizationId = await addOrganization(pool);
    const customer_id = await addCustomer(pool, organizationId);
    const rows = [
      { utm_source: 'google', utm_campaign: 'summer', purchase_value_in_cents: 3_000 },
      { utm_source: 'google', purchase_value_in_cents: 2_000 },
      { purchase_value_in_cents: 1_000 },
    ];
    for (const row of rows) {
      const created_at = '2026-01-10T12:00:00Z';
      const values = { ...row, customer_id, created_at, currency: 'BRL', payment_status: 'paid' };
      await addPurchase(pool, organizationId, values);
    }
    const { secret } = await addKey(pool, organizationId);
    await worker.syncAll();
    const { page, enter, loaded } = await open(`${paidJanuary}&then_by=utm_campaign`);
    await enter(secret);
    const names = () => page.locator('#ranking tbody th').allTextContents();
    expect(await names()).toEqual(['googlesummer', 'googleNo campaign', 'No sourceNo campaign']);
    await page.getByTitle('Show only google, No campaign').click();
    await loaded();
    expect(stateOf(page)).toMatchObject({ utm_source: 'google', without: 'utm_campaign' });
    expect(stateOf(page).then_by).toBe('none');
    expect(await card(page, 'Sales').textContent()).toBe('R$20.00');
    await page.goBack();
    await loaded();
    // The whole row can be clicked.
    await page.locator('#ranking tbody tr').first().locator('td').last().click({ force: true });
    await loaded();
    expect(stateOf(page)).toMatchObject({ utm_source: 'google', utm_campaign: 'summer' });
  });
});
