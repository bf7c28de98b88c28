import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { hasBrowser } from './browser.ts';
import { test as base, january } from './opened-page.ts';

/** A shop with three purchases in reais and two in euros, of one customer. */
const it = base.extend('currencyShop', { scope: 'file' }, async ({ database: { pool } }) => {
  const organizationId = await addOrganization(pool, 'Two currencies');
  const customer_id = await addCustomer(pool, organizationId);
  for (const [day, currency] of ['BRL', 'EUR', 'BRL', 'EUR', 'BRL'].entries()) {
    await addPurchase(pool, organizationId, {
      customer_id,
      created_at: `2026-01-1${day}T12:00:00Z`,
      currency,
      payment_status: 'paid',
      platform: day === 0 ? 'bling' : 'shopify',
      purchase_value_in_cents: 1000 + day,
    });
  }
  const { secret } = await addKey(pool, organizationId);
  return { secret, customer: encodeId('customer', customer_id) };
});

describe.runIf(hasBrowser)('the page of a shop with several currencies', { tags: ['slow'] }, () => {
  it('shows the most frequent currency with changes and shares, and others on request', async ({
    open,
    currencyShop,
  }) => {
    const { page, enter, loaded } = await open(january);
    await enter(currencyShop.secret);
    const revenue = page.locator('#totals .card-value').first();
    const currency = page.locator('#currency');
    expect(await currency.inputValue()).toBe('BRL');
    expect(await currency.locator('option').allTextContents()).toEqual([
      'BRL',
      'EUR',
      'All currencies',
    ]);
    expect(await revenue.textContent()).toBe('R$30.06');
    expect(await page.locator('#ranking tbody tr').textContent()).toContain('100%');
    expect(page.url()).toContain('currency=BRL');
    await currency.selectOption('EUR');
    await loaded();
    expect(await revenue.textContent()).toBe('€20.04');
    await currency.selectOption('All currencies');
    await loaded();
    expect(await revenue.locator('.line').allTextContents()).toEqual(['R$30.06', '€20.04']);
    await page.reload();
    await loaded();
    expect(await revenue.locator('.line').count()).toBe(2);
  });

  it('states the currencies in which a customer has spent', async ({ open, currencyShop }) => {
    const { page, enter } = await open(`/app/customers/${currencyShop.customer}`);
    await enter(currencyShop.secret);
    const spent = page.locator('.facts > div', { hasText: 'Total spent' }).locator('dd');
    expect(await spent.allTextContents()).toEqual(['R$30.06', '€20.04']);
  });

  it('offers the values of filters that occur in the period, requested with the filter', async ({
    open,
    currencyShop,
  }) => {
    const { page, enter, requests } = await open(january);
    await enter(currencyShop.secret);
    const values = () => page.locator('#filter-input option').allTextContents();
    const requested = () => requests.filter((one) => one.url().includes('&limit=50'));
    expect(requested()).toHaveLength(0);
    await page.getByRole('button', { name: 'Add filter' }).click();
    for (const [name, occurring] of [
      ['Platform', ['shopify', 'bling']],
      ['Currency', ['BRL', 'EUR']],
      ['Payment status', ['paid']],
    ] as const) {
      await page.getByLabel('Filter', { exact: true }).selectOption(name);
      await page.locator(`#filter-input[data-occurring="${occurring.length}"]`).waitFor();
      expect(await values()).toEqual(occurring);
    }
    expect(requested().map((one) => new URL(one.url()).searchParams.get('group_by'))).toEqual(
      expect.arrayContaining(['platform', 'currency', 'status']),
    );
  });
});
