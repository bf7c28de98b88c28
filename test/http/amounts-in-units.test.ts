import { describe, expect } from 'vitest';
import { test as it } from '../support/fixtures.ts';
import { servedShop } from './served-shop.ts';

describe("amounts in units of each row's currency", () => {
  const shop = servedShop();

  const day = (value: number) => `2026-01-0${value}T12:00:00Z`;
  const store = async (...currencies: (string | null)[]) => {
    for (const [index, currency] of currencies.entries()) {
      const value = 5_000 - index * 1_000;
      const values = { currency, created_at: day(index + 1), purchase_value_in_cents: value };
      await shop.add({ ...values, discount_in_cents: -5 });
    }
    await shop.publish();
  };

  /** The named fields of each row. */
  const rowsOf = async (path: string, ...fields: string[]) => {
    const response = await shop.get(
      `/v1/purchases${path}${path.includes('?') ? '&' : '?'}format=csv_excel&amounts=units`,
    );
    expect(response.statusCode, response.body).toBe(200);
    const [names = [], ...rows] = response.body
      .replace('\ufeff', '')
      .trimEnd()
      .split('\r\n')
      .map((line) => line.split(','));
    return rows.map((row) => fields.map((field) => row[names.indexOf(field)]).join(' '));
  };

  it('are those of purchases in lists and exports', async () => {
    await store('JPY', 'KWD', 'BRL', 'CLF', null);
    const expected = [
      ...['JPY 5000 -5', 'KWD 4.000 -0.005', 'BRL 30.00 -0.05', 'CLF 0.2000 -0.0005'],
      ' 10.00 -0.05',
    ];
    const fields = ['currency', 'purchase_value', 'discount'];
    expect(await rowsOf('', ...fields)).toEqual(expected.toReversed());
    expect((await rowsOf('/export', ...fields)).sort()).toEqual(expected.toSorted());
  });

  it('are those of changes, beside deletions', async () => {
    const deleted = await shop.add({ currency: 'USD' });
    await shop.publish();
    const { next_cursor: cursor } = (await shop.get('/v1/purchases/changes')).json();
    await shop.database.pool.query('delete from purchases where id = $1', [deleted]);
    await store('JPY');
    const fields = ['currency', 'purchase_value', 'deleted'];
    const rows = await rowsOf(`/changes?cursor=${cursor}`, ...fields);
    expect(rows.sort()).toEqual(['  true', 'JPY 5000 false']);
  });

  it('are those of all rows in statistics, series, reports and cohorts of one currency', async () => {
    await store('JPY', 'JPY', null);
    const fields = ['currency', 'revenue', 'average_ticket'];
    expect(await rowsOf('/stats', ...fields)).toEqual(['JPY 12000 4000']);
    expect(await rowsOf('/stats?group_by=status', ...fields)).toEqual(['JPY 12000 4000']);
    expect(await rowsOf('/timeseries?interval=day', ...fields)).toEqual([
      ...['JPY 5000 5000', 'JPY 4000 4000', 'JPY 3000 3000'],
    ]);
    expect(await rowsOf('/report', ...fields)).toEqual(['JPY 12000 4000']);
    expect(
      await rowsOf('/report?group_by=day&measures=discount_in_cents', 'currency', 'discount'),
    ).toEqual(['JPY -5', 'JPY -5', 'JPY -5']);
    const cohorts = await rowsOf('/cohorts?interval=month&periods=1', 'currency', 'revenue');
    expect(cohorts).toEqual(['JPY 12000']);
  });

  it('are those of the group in rankings, series and reports by currency', async () => {
    await store('JPY', 'KWD', null);
    const expected = ['JPY 5000', 'KWD 4.000', ' 30.00'];
    expect(await rowsOf('/stats?group_by=currency', 'key', 'revenue')).toEqual(expected);
    expect(await rowsOf('/report?group_by=currency', 'currency', 'revenue')).toEqual(expected);
    expect(await rowsOf('/timeseries?interval=month&group_by=currency', 'key', 'revenue')).toEqual(
      expected,
    );
  });

  it('have two digits in sums of several currencies, and without a purchase', async () => {
    await store('JPY', 'KWD');
    for (const path of ['/stats', '/timeseries?interval=month', '/report']) {
      expect(await rowsOf(path, 'currency', 'revenue')).toEqual([' 90.00']);
    }
    expect(
      await rowsOf('/cohorts?interval=month&periods=1&group_by=currency', 'currency', 'revenue'),
    ).toEqual([' 90.00']);
    expect(await rowsOf('/stats?currency=BRL', 'currency', 'revenue')).toEqual([' 0.00']);
  });

  it('are those of both periods in a report that compares them', async () => {
    await store('JPY', null, 'KWD');
    const fields = ['currency', 'mixed_currencies', 'revenue', 'compared_revenue'];
    const compared = (from: number, until: number) =>
      rowsOf(
        `/report?created_since=2026-01-0${from}T00:00:00Z&created_until=2026-01-0${until}T23:59:59.999999Z` +
          '&compare_to=previous_period',
        ...fields,
      );
    expect(await compared(2, 2)).toEqual(['JPY false 4000 5000']);
    expect(await compared(4, 6)).toEqual([' true 0.00 120.00']);
    expect(await compared(3, 4)).toEqual([' true 30.00 90.00']);
  });
});
