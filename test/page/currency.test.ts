import { describe, expect } from 'vitest';
import { formatMoney, formatShortMoney, unitsOf } from '../../src/page/browser/display/format.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { hasBrowser } from './browser.ts';
import { test as it, january } from './opened-page.ts';

it.each([
  ['BRL', 'R$1,234.56'],
  ['JPY', '¥123,456'],
  ['KWD', 'KWD 123.456'],
  // Intl has no digits for it.
  ['IQD', 'IQD 123.456'],
  [null, '1,234.56'],
  ['points', '1,234.56'],
])('amounts of the currency %s have its digits, also on an axis: %s', (currency, expected) => {
  const plain = (text: string) => text.replaceAll('\u00a0', ' ');
  expect(plain(formatMoney(123_456, currency))).toBe(expected);
  expect(plain(formatShortMoney(unitsOf(123_456, currency), currency))).toBe(expected);
});

it('has exact values on an axis, short ones from a million on', () => {
  const values = [1_250, 125_000, 1_250_000, 12_500_000];
  expect(values.map((value) => formatShortMoney(value, 'BRL'))).toEqual([
    ...['R$1,250', 'R$125,000', 'R$1.25M', 'R$12.5M'],
  ]);
});

describe.runIf(hasBrowser)('the page of a shop with yen alone', () => {
  it('has no decimals in totals, chart, ranking, purchases and filters', {
    tags: ['slow'],
  }, async ({ open, database: { pool } }) => {
    const organizationId = await addOrganization(pool);
    const customer_id = await addCustomer(pool, organizationId);
    for (const value of [5_000, 120_000]) {
      const values = { created_at: '2026-01-10T12:00:00Z', purchase_value_in_cents: value };
      await addPurchase(pool, organizationId, { ...values, customer_id, currency: 'JPY' });
    }
    const { secret } = await addKey(pool, organizationId);
    const { page, enter, loaded } = await open(january);
    // The chart has its labels on a canvas.
    await page.evaluate(`{
      window.labels = new Set();
      const { fillText } = CanvasRenderingContext2D.prototype;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...position) {
        labels.add(text);
        return fillText.call(this, text, ...position);
      };
    }`);
    await enter(secret);
    const text = (selector: string) => page.locator(selector).allTextContents();
    expect((await text('#totals .card-value'))[0]).toBe('¥125,000');
    expect(await text('#ranking .number')).toEqual(expect.arrayContaining(['¥125,000', '¥62,500']));
    expect(await text('#purchases .number')).toEqual(
      expect.arrayContaining(['¥120,000', '¥5,000']),
    );
    expect(await page.evaluate('[...labels]')).toEqual(
      expect.arrayContaining(['¥0', '¥60,000', '¥120,000']),
    );
    await page.getByText('Show as a table').click();
    expect((await text('#chart-table tbody tr'))[9]).toBe('Jan 10, 2026¥125,000¥0');

    const filter = async (value: string) => {
      await page.getByLabel('Filter', { exact: true }).selectOption('Value from');
      await page.locator('#filter-input').fill(value);
      await page.getByRole('button', { name: 'Apply' }).click();
    };
    await page.getByRole('button', { name: 'Add filter' }).click();
    await filter('99.90');
    expect(await text('#filter-problem')).toEqual(['Enter an amount such as 9990.']);
    await filter('10000');
    await loaded();
    expect((await text('#totals .card-value'))[0]).toBe('¥120,000');
    expect((await text('#chips li')).at(-1)).toBe('Value from¥10,000×');
    // No purchase matches.
    await page.goto(page.url().replace('status=all', 'status=voided'));
    await loaded();
    expect(await text('#chips .chip-value')).toContain('¥10,000');
  });
});
