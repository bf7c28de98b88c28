import { describe, expect } from 'vitest';
import { test as it } from '../support/fixtures.ts';
import { addPurchase } from '../support/shop.ts';
import { expectRefusal } from './refusal.ts';

describe('csv_excel', () => {
  it.beforeAll(async ({ database, shop, customerId }) => {
    await database.pool.query(`update customers set name = 'Ana; Maria', phone = '0123'`);
    await addPurchase(database.pool, shop.organizationId, {
      customer_id: customerId,
      purchase_value_in_cents: 123_456n,
      discount_in_cents: -5n,
      order_number: '3-4',
      order_id_on_integration_platform: '1234567890123456',
      currency: 'KWD',
      created_at: '2026-01-31T02:05:09.999999Z',
      updated_at: '2026-01-31T02:05:09.999999Z',
    });
  });

  const paths = [
    ...['purchases', 'purchases/export', 'purchases/stats', 'purchases/timeseries?interval=day'],
    ...['purchases/report?group_by=customer,day', 'purchases/cohorts?interval=week'],
    ...['purchases/changes', 'customers', 'customers/export'],
  ].map((path) => `/v1/${path}${path.includes('?') ? '&' : '?'}`);

  /** The fields of the first row by their names. */
  function firstRow(body: string, separator: string): Record<string, string> {
    const [names = [], values = []] = body
      .replace('\ufeff', '')
      .split('\r\n')
      .map((line) => line.match(new RegExp(`(?<=^|${separator})("[^"]*"|[^${separator}]*)`, 'g')));
    return Object.fromEntries((names ?? []).map((name, index) => [name, values?.[index] ?? '']));
  }

  it('keeps text that a spreadsheet would change, and other values as in csv', async ({ get }) => {
    for (const path of ['/v1/purchases?', '/v1/purchases/export?']) {
      const excel = (await get(`${path}format=csv_excel`)).body;
      const { body } = await get(`${path}format=csv`);
      const changed = body.replace(',3-4,', `,'3-4,`).replace(',1234567890123456,', `,'$&`);
      expect(excel.replace(`,'1234567890123456,`, `,',1234567890123456,`)).toBe(`\ufeff${changed}`);
    }
  });

  it('has amounts in units, a decimal comma, semicolons and local time', async ({ get }) => {
    const options =
      'format=csv_excel&separator=semicolon&decimal=comma&amounts=units&timezone=America/Sao_Paulo';
    for (const path of ['/v1/purchases?', '/v1/purchases/export?']) {
      const { body, headers } = await get(`${path}${options}`);
      expect(headers['content-type']).toBe('text/csv; charset=utf-8; header=present');
      expect(body.startsWith('\ufeffid;customer_id;purchase_value;created_at (America/')).toBe(
        true,
      );
      expect(firstRow(body, ';')).toMatchObject({
        purchase_value: '123,456',
        discount: '-0,005',
        subtotal_amount: '',
        'created_at (America/Sao_Paulo)': '2026-01-30 23:05:09',
        order_number: "'3-4",
      });
    }
    const series = await get(`/v1/purchases/timeseries?interval=day&${options}`);
    expect(firstRow(series.body, ';')).toMatchObject({
      'starts_at (America/Sao_Paulo)': '2026-01-30 00:00:00',
      revenue: '123,456',
      purchase_count: '1',
    });
    const stats = await get(`/v1/purchases/stats?${options}`);
    expect(firstRow(stats.body, ';')).toMatchObject({ average_ticket: '123,456', currency: 'KWD' });
    const customers = await get(`/v1/customers?${options}`);
    expect(firstRow(customers.body, ';')).toMatchObject({
      // Without a currency.
      total_spent: '0,00',
      name: '"Ana; Maria"',
      phone: "'0123",
      is_subscribed: 'false',
    });
  });

  it('quotes a decimal comma between commas', async ({ get }) => {
    const { body } = await get('/v1/purchases?format=csv_excel&amounts=units&decimal=comma');
    expect(firstRow(body, ',')).toMatchObject({
      purchase_value: '"123,456"',
      discount: '"-0,005"',
    });
  });

  it('has the default options if they are given, but then also UTC as local time', async ({
    get,
  }) => {
    for (const path of paths.filter((each) => !/export|changes/.test(each))) {
      const plain = (await get(`${path}format=csv_excel`)).body;
      const given = 'separator=comma&decimal=point&amounts=cents';
      expect((await get(`${path}format=csv_excel&${given}`)).body).toBe(plain);
      const utc = (await get(`${path}format=csv_excel&timezone=UTC`)).body;
      expect(utc).toBe(
        plain
          .replaceAll(/(\d{4}-\d\d-\d\d)T([\d:]{8})(\.\d{6})?Z/g, '$1 $2')
          .replaceAll(/\b(\w+_at|\w+_date|day|cohort)(?=[,\r])/g, '$1 (UTC)'),
      );
    }
  });

  it('alone has options: other formats refuse them, and say so', async ({ get }) => {
    for (const path of paths) {
      for (const option of ['separator=semicolon', 'decimal=comma', 'amounts=units']) {
        for (const format of ['', '&format=csv', '&format=ndjson']) {
          const [name = ''] = option.split('=');
          const { error } = expectRefusal(
            await get(`${path}${option}${format}`, { accept: 'text/csv' }),
            'validation_error',
            name,
          );
          expect(error.message).toBe(
            `${name} is an option of format=csv_excel: add format=csv_excel, or leave ${name} out.`,
          );
        }
      }
      const zoned = await get(`${path}timezone=Asia/Tokyo`);
      if (/stats|timeseries|report|cohorts/.test(path)) expect(zoned.statusCode).toBe(200);
      else expectRefusal(zoned, 'validation_error', 'timezone');
    }
  });
});
