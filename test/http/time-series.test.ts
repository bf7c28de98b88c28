import { describe, expect } from 'vitest';
import { test as it } from '../support/fixtures.ts';
import { addCustomer } from '../support/shop.ts';
import { expectRefusal } from './refusal.ts';
import { servedShop } from './served-shop.ts';

type Period = { readonly is_complete: boolean };

describe('GET /v1/purchases/timeseries', () => {
  const shop = servedShop();
  const request = (query: string) => shop.get(`/v1/purchases/timeseries?${query}`);
  const get = async (query: string) => {
    const response = await request(query);
    expect(response.statusCode, response.body).toBe(200);
    return response;
  };
  const store = async () => {
    const other = await addCustomer(shop.database.pool, shop.organizationId);
    const [march, may] = ['2026-03-31T23:30:00Z', '2026-05-01T00:00:00Z'];
    for (const values of [
      { created_at: march, purchase_value_in_cents: 100, platform: 'popup' },
      { created_at: march, purchase_value_in_cents: 201, platform: 'popup', customer_id: other },
      { created_at: may, purchase_value_in_cents: 50, platform: 'bling' },
    ]) {
      await shop.add({ ...values, currency: 'BRL' });
    }
    await shop.publish();
  };
  const none = {
    purchase_count: 0,
    customer_count: 0,
    revenue_in_cents: 0,
    average_ticket_in_cents: 0,
  };
  const popup = {
    purchase_count: 2,
    customer_count: 2,
    revenue_in_cents: 301,
    average_ticket_in_cents: 151,
  };
  const bling = {
    purchase_count: 1,
    customer_count: 1,
    revenue_in_cents: 50,
    average_ticket_in_cents: 50,
  };
  const totals = {
    object: 'purchase_timeseries',
    interval: 'month',
    timezone: 'UTC',
    purchase_count: 3,
    customer_count: 2,
    revenue_in_cents: 351,
    average_ticket_in_cents: 117,
    currency: 'BRL',
    mixed_currencies: false,
    group_by: null,
    series_truncated: false,
  };
  const [march, april, may] = ['03', '04', '05'].map((month) => ({
    starts_at: `2026-${month}-01T00:00:00.000000Z`,
    is_complete: true,
  }));

  it('has the totals, and each period from the first to the last purchase', async () => {
    await store();
    expect((await get('interval=month')).json()).toStrictEqual({
      ...totals,
      series: [
        {
          key: null,
          periods: [
            { ...march, ...popup },
            { ...april, ...none },
            { ...may, ...bling },
          ],
        },
      ],
    });
  });

  it('has a series for each group, in the order of the ranking', async () => {
    await store();
    expect((await get('interval=month&group_by=platform&group_limit=1')).json()).toStrictEqual({
      ...totals,
      group_by: 'platform',
      series: [
        {
          key: 'popup',
          periods: [
            { ...march, ...popup },
            { ...april, ...none },
            { ...may, ...none },
          ],
        },
      ],
      series_truncated: true,
    });
  });

  it('begins periods in the time zone, within the bounds', async () => {
    await store();
    const query = 'interval=day&timezone=asia/tokyo&created_until=2026-04-01T15:00:00Z';
    const { timezone, series } = (await get(query)).json();
    expect(timezone).toBe('Asia/Tokyo');
    expect(series[0].periods).toStrictEqual([
      { starts_at: '2026-03-31T15:00:00.000000Z', ...popup, is_complete: true },
      { starts_at: '2026-04-01T15:00:00.000000Z', ...none, is_complete: false },
    ]);
  });

  it.each([
    ['', '2026-03-30'],
    ['&week_start=monday', '2026-03-30'],
    ['&week_start=sunday', '2026-03-29'],
    ['&week_start=saturday', '2026-03-28'],
  ])('begins weeks as asked for by "%s"', async (start, first) => {
    await store();
    const query = `interval=week&created_since=2026-03-31T00:00:00Z${start}`;
    const { series } = (await get(query)).json();
    expect(series[0].periods[0].starts_at).toBe(`${first}T00:00:00.000000Z`);
  });

  it('is available as CSV, with a row for each period of each series', async () => {
    await store();
    const query = 'interval=month&group_by=platform';
    const csv = await get(`${query}&format=csv`);
    expect(csv.headers['x-has-more']).toBe('false');
    expect(csv.body.split('\r\n')).toEqual([
      'starts_at,key,purchase_count,customer_count,revenue_in_cents,average_ticket_in_cents,currency,mixed_currencies,is_complete',
      '2026-03-01T00:00:00Z,popup,2,2,301,151,BRL,false,true',
      '2026-04-01T00:00:00Z,popup,0,0,0,0,BRL,false,true',
      '2026-05-01T00:00:00Z,popup,0,0,0,0,BRL,false,true',
      '2026-03-01T00:00:00Z,bling,0,0,0,0,BRL,false,true',
      '2026-04-01T00:00:00Z,bling,0,0,0,0,BRL,false,true',
      '2026-05-01T00:00:00Z,bling,1,1,50,50,BRL,false,true',
      '',
    ]);
  });

  it('marks periods that the bounds or the present cut', async () => {
    await store();
    const completeIn = async (query: string) =>
      (await get(query)).json().series[0].periods.map((one: Period) => one.is_complete);
    const whole = 'created_since=2026-03-01T00:00:00Z&created_until=2026-05-31T23:59:59.999999Z';
    expect(await completeIn(`interval=month&${whole}`)).toEqual([true, true, true]);
    const cut =
      'created_since=2026-03-01T00:00:00.000001Z&created_until=2026-05-31T23:59:59.999998Z';
    expect(await completeIn(`interval=month&${cut}`)).toEqual([false, true, false]);
    const present = new Date().toISOString();
    const since = new Date(Date.now() - 3 * 3_600_000).toISOString();
    const hours = await completeIn(`interval=hour&created_since=${since}&created_until=${present}`);
    expect(hours).toEqual([false, true, true, false]);
    const future = 'created_since=2026-01-01T00:00:00Z&created_until=9999-12-31T00:00:00Z';
    expect((await completeIn(`interval=year&${future}`)).slice(-2)).toEqual([false, false]);
  });

  it('chooses an interval of at most 300 periods', async () => {
    await store();
    const of = async (query: string) => (await get(`interval=auto&${query}`)).json().interval;
    expect(await of('')).toBe('day');
    expect(await of('created_since=2026-03-01T00:00:00Z&created_until=2026-03-12T00:00:00Z')).toBe(
      'hour',
    );
    expect(await of('created_since=2006-03-01T00:00:00Z')).toBe('month');
  });

  it('refuses to group by day, more than 10,000 periods, and more than 1,000 with groups', async () => {
    await store();
    expectRefusal(await request('interval=day&group_by=day'), 'validation_error', 'group_by');
    const refusal = async (query: string) => {
      const refused = await request(query);
      expectRefusal(refused, 'validation_error', 'interval');
      return refused.json().error.message;
    };
    const bounds = 'created_since=2026-01-01T00:00:00Z&created_until=2026-02-11T16:00:00Z';
    expect(await refusal(`interval=hour&group_by=status&${bounds}`)).toContain(
      'into 1001 periods, more than 1000',
    );
    expect(await refusal('interval=hour&created_since=2020-01-01T00:00:00Z')).toContain(
      'more than 10000',
    );
    const [series] = (await get(`interval=hour&${bounds}`)).json().series;
    expect(series.periods).toHaveLength(1_001);
  });
});
