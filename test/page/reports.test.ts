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
          .filter((url) => /purchases[/?]/.test(url) && !/group_by=(status|coupon)/.test(url)),
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
    const caio = { organization_id: organizationId, name: ' ', email: 'caio@example.com' };
    await add(await addRow(pool, 'customers', caio), '2026-01-12T12:00:00Z', 700);
    const davi = { organization_id: organizationId, name: '', phone: '+55 11 98765-4321' };
    await add(await addRow(pool, 'customers', davi), '2026-01-12T12:00:00Z', 400);
    await add(await addCustomer(pool, organizationId), '2026-01-12T12:00:00Z', 300);
    const { secret } = await addKey(pool, organizationId);
    await worker.syncAll();
    const { page, enter, loaded } = await open(paidJanuary);
    await enter(secret);
    const text = (selector: string) => page.locator(selector).allTextContents();
    expect(await text('#customer-types tbody tr')).toEqual([
      'NewR$14.00new31.8%33',
      'ReturningR$30.00new68.2%11',
    ]);
    expect(await text('#best-customers tbody tr')).toEqual([
      'Ana1R$30.00',
      'caio@example.com1R$7.00',
      '+55 11 98765-43211R$4.00',
      expect.stringMatching(/^cus_\w+1R\$3\.00$/),
    ]);
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

  it('ranks coupons, of which an order may have several, and filters by one and by none', {
    tags: ['slow'],
  }, async ({ open, database: { pool }, worker }) => {
    const organizationId = await addOrganization(pool);
    const customer_id = await addCustomer(pool, organizationId);
    for (const [index, codes] of [['VIP', 'FREE'], ['VIP'], ['VIP'], [], []].entries()) {
      await addPurchase(pool, organizationId, {
        ...{ customer_id, created_at: '2026-01-10T12:00:00Z', payment_status: 'paid' },
        ...{ currency: 'BRL', purchase_value_in_cents: 1000 + index },
        coupons: JSON.stringify(codes.map((code) => ({ id: '1', code }))),
      });
    }
    const { secret } = await addKey(pool, organizationId);
    await worker.syncAll();
    const { page, enter, loaded } = await open(paidJanuary);
    await enter(secret);
    const names = () => page.locator('#ranking tbody th').allTextContents();
    const hint = page.locator('#ranking .hint');
    expect(await hint.count()).toBe(0);
    await page.locator('#dimension').selectOption('Coupon');
    await loaded();
    expect(await names()).toEqual(['VIP', 'No coupon', 'FREE']);
    expect(await hint.textContent()).toMatch(/several coupons is in several rows/);
    await page.getByTitle('Show only VIP').click();
    await loaded();
    expect(stateOf(page)).toMatchObject({ coupon: 'VIP' });
    expect(await card(page, 'Orders').textContent()).toBe('3');
    await page.goBack();
    await loaded();
    await page.getByTitle('Show only No coupon').click();
    await loaded();
    expect(stateOf(page)).toMatchObject({ without: 'coupon' });
    expect(await card(page, 'Orders').textContent()).toBe('2');
    await page.goBack();
    await loaded();
    await page.getByRole('button', { name: 'Add filter' }).click();
    await page.getByLabel('Filter', { exact: true }).selectOption('Coupon');
    await page.locator('#filter-suggestions option').first().waitFor({ state: 'attached' });
    const offered = page.locator('#filter-suggestions option');
    expect(await offered.evaluateAll((all) => all.map((one) => one.getAttribute('value')))).toEqual(
      ['VIP', 'FREE'],
    );
    await page.getByRole('button', { name: 'Português' }).click();
    await loaded();
    expect(await names()).toContain('Sem cupom');
    expect(await hint.textContent()).toMatch(/vários cupons está em várias linhas/);
  });
});
