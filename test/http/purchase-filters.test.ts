import { describe, expect } from 'vitest';
import { test as it } from '../support/fixtures.ts';
import { expectRefusal } from './refusal.ts';
import { customerUrl, servedShop } from './served-shop.ts';

describe('the filters of purchases', () => {
  const shop = servedShop();

  /** The number of purchases in the lists and in the statistics. */
  async function found(query: string): Promise<number> {
    const list = (await shop.get(`/v1/purchases?${query}`)).json();
    const ofCustomer = (await shop.get(`${customerUrl(shop.customerId)}?${query}`)).json();
    const stats = (await shop.get(`/v1/purchases/stats?${query}`)).json();
    expect(ofCustomer.data).toStrictEqual(list.data);
    expect(stats.purchase_count).toBe(list.data.length);
    return list.data.length;
  }

  /** Expects the purchases whose amounts, different powers of ten, have this sum: its digits say which are found. */
  async function expectSum(query: string, sum: number): Promise<void> {
    const digits = [...String(sum)].filter((digit) => digit === '1');
    expect(await found(query), query).toBe(digits.length);
    const { totals } = (await shop.get(`/v1/purchases/report?${query}`)).json();
    expect(totals.revenue_in_cents, query).toBe(sum);
    const series = (await shop.get(`/v1/purchases/timeseries?interval=month&${query}`)).json();
    expect(series.revenue_in_cents, query).toBe(sum);
    const exported = await shop.get(`/v1/purchases/export?format=ndjson&${query}`);
    const lines = exported.body.split('\n').filter((line) => line !== '');
    expect(
      lines.reduce((all, line) => all + centsOf(JSON.parse(line)), 0),
      query,
    ).toBe(sum);
  }

  /** Each route with these filters, up to their names. */
  const urls = () => [
    '/v1/purchases?',
    `${customerUrl(shop.customerId)}?`,
    ...['stats?', 'timeseries?interval=day&', 'report?', 'cohorts?', 'export?'].map(
      (end) => `/v1/purchases/${end}`,
    ),
  ];

  it('accept each payment status, and any for all', async () => {
    const statuses = ['pending', 'authorized', 'paid', 'abandoned', 'refunded', 'voided'];
    for (const [index, status] of statuses.entries()) {
      // The status of the order differs.
      await shop.add({ payment_status: status, status: statuses.at(index - 1) as string });
    }
    await shop.add();
    await shop.publish();
    for (const status of statuses) expect(await found(`status=${status}`), status).toBe(1);
    expect(await found('status=any')).toBe(7);
    expect(await found('status=paid,authorized')).toBe(2);
  });

  it('accept each platform', async () => {
    const platforms = ['shopify', 'nuvemshop', 'woocommerce', 'bling', 'facebook', 'popup'];
    for (const platform of [...platforms, 'elsewhere', null]) await shop.add({ platform });
    await shop.publish();
    for (const platform of platforms) {
      expect(await found(`platform=${platform}`), platform).toBe(1);
    }
    expect(await found('platform=popup,bling,shopify')).toBe(3);
  });

  it('bound the amount on both sides, inclusively', async () => {
    for (const cents of [0, 99, 100, 101]) await shop.add({ purchase_value_in_cents: cents });
    await shop.publish();
    expect(await found('min_value_in_cents=100')).toBe(2);
    expect(await found('max_value_in_cents=100')).toBe(3);
    expect(await found('min_value_in_cents=100&max_value_in_cents=100')).toBe(1);
    expect(await found('max_value_in_cents=0')).toBe(1);
    expect(await found('min_value_in_cents=0')).toBe(4);
  });

  it('find a currency code in any case, as sent and as stored', async () => {
    for (const currency of ['BRL', 'brl', 'Usd', 'bónus', null]) await shop.add({ currency });
    await shop.publish();
    for (const code of ['BRL', 'brl', 'bRl']) expect(await found(`currency=${code}`), code).toBe(2);
    expect(await found('currency=usd')).toBe(1);
    expect(await found('currency=usd&currency=BRL')).toBe(3);
    expect(await found('currency=EUR')).toBe(0);
    expect(await found('without=currency')).toBe(1);
  });

  it('find another currency as it is stored, and refuse one that no purchase has', async () => {
    for (const currency of ['R$', 'r$', 'BRL']) await shop.add({ currency });
    await shop.publish();
    expect(await found('currency=R$')).toBe(1);
    expect(await found('currency=R$&currency=brl')).toBe(2);
    for (const query of ['currency=R%24%20', 'currency=BRL,USD', 'currency=BRL&currency=BTC']) {
      for (const url of urls()) {
        const response = await shop.get(`${url}${query}`);
        const { error } = expectRefusal(response, 'validation_error', 'currency');
        expect(error.message).toMatch(/"(R\$ |BRL,USD|BTC)" is no code .* no purchase has it/);
      }
    }
  });

  it('select any of several texts', async () => {
    const names = ['utm_source', 'utm_medium', 'utm_campaign', 'utm_content', 'utm_term'];
    for (const name of names) {
      for (const value of ['google', 'facebook', 'google,facebook', 'Google', null]) {
        await shop.add({ [name]: value });
      }
    }
    await shop.publish();
    for (const name of names) {
      expect(await found(`${name}=google&${name}=facebook`), name).toBe(2);
      expect(await found(`${name}=facebook&${name}=google&${name}=in%20none`), name).toBe(2);
      expect(await found(`${name}=google,facebook`), name).toBe(1);
      const many = Array.from({ length: 49 }, (_, index) => `${name}=${index}`).join('&');
      expect(await found(`${many}&${name}=Google`), name).toBe(1);
    }
    expect(await found('utm_source=google&utm_source=facebook&utm_term=google')).toBe(0);
    expect(await found('utm_source=google&utm_source=facebook&without=utm_term')).toBe(2);
    expect(await found('utm_source=google&utm_source=facebook&without=utm_source')).toBe(0);
  });

  it('select the same purchases on every route', async () => {
    const coded = (...codes: (string | number)[]) =>
      JSON.stringify(codes.map((code) => ({ code })));
    // The clocks of São Paulo were two hours behind UTC until 17 February 2019, and three since.
    const [friday, midnight] = ['2019-02-15T01:59:59.999999Z', '2019-02-15T02:00:00Z'];
    const [tuesday, wednesday] = ['2019-02-20T02:59:59.999999Z', '2019-02-20T03:00:00Z'];
    const paid = { payment_status: 'paid' };
    // The digits of a sum say which purchases are found.
    for (const [index, values] of [
      { created_at: friday, utm_source: 'google', coupons: coded('VIP') },
      { created_at: midnight, utm_source: 'facebook', coupons: coded('FREE', 'VIP'), ...paid },
      { created_at: tuesday, utm_source: 'google,facebook', coupons: coded('free'), ...paid },
      { created_at: wednesday, coupons: coded('A,B'), currency: 'Brl' },
      { created_at: '2019-02-21T12:00:00Z', utm_source: 'a:b', coupons: coded(7) },
      { created_at: '2019-02-21T12:00:00Z', utm_source: 'Google', coupons: '[]' },
    ].entries()) {
      await shop.add({ ...values, purchase_value_in_cents: 10 ** index });
    }
    await shop.publish();
    const local = 'timezone=America/Sao_Paulo';
    const sums = {
      'utm_source=google&utm_source=facebook': 11,
      'utm_source=google&utm_source=facebook&min_value_in_cents=10': 10,
      'utm_source=google,facebook': 100,
      'without=utm_source': 1000,
      'without=utm_source&utm_source=google': 0,
      'without=utm_source,status&currency=BRL': 1000,
      'not=utm_source:a:b&not=coupon:VIP': 101_100,
      'not=status:paid&not=currency:BRL': 110_001,
      'not=status:paid&not=currency:brl': 110_001,
      'coupon=VIP&min_value_in_cents=10': 10,
      'coupon=FREE&coupon=A,B': 1010,
      'coupon=7': 10_000,
      'coupon=absent': 0,
      'without=coupon': 100_000,
      'weekday=5': 11,
      'weekday=1,3': 1100,
      'hour_of_day=1,2&weekday=5': 11,
      [`weekday=4&${local}`]: 110_001,
      [`weekday=5&${local}`]: 10,
      [`hour_of_day=23&${local}`]: 101,
      [`hour_of_day=0&${local}`]: 1010,
      [`hour_of_day=0&${local}&created_since=2019-02-18T00:00:00Z`]: 1000,
    };
    for (const [query, sum] of Object.entries(sums)) await expectSum(query, sum);
    const tagOf = async (query: string) =>
      (await shop.get(`/v1/purchases/stats?${query}`)).headers.etag;
    const both = await tagOf('utm_source=google&utm_source=facebook');
    expect(await tagOf('utm_source=facebook&utm_source=google')).toBe(both);
    for (const source of ['google', 'facebook', 'google,facebook']) {
      expect(await tagOf(`utm_source=${source}`)).not.toBe(both);
    }
    // All purchases are of one customer, whose first one selects the cohort.
    const cohorts = async (query: string) =>
      (await shop.get(`/v1/purchases/cohorts?${query}`)).json().rows.length;
    for (const [query, count] of Object.entries({
      ...{ 'utm_source=a:b&utm_source=google': 1, 'utm_source=a:b&utm_source=facebook': 0 },
      ...{ 'coupon=VIP': 1, 'coupon=FREE': 0, 'weekday=5': 1, [`weekday=5&${local}`]: 0 },
    })) {
      expect(await cohorts(query), query).toBe(count);
    }
    for (const url of ['/v1/purchases?', '/v1/purchases/export?']) {
      expectRefusal(await shop.get(`${url}${local}`), 'validation_error', 'timezone');
    }
  });

  it('select first or later purchases in reports, statistics and time series alone', async () => {
    const days = ['05', '06', '20'].map((day) => `2026-01-${day}T00:00:00Z`);
    for (const [index, created_at] of days.entries()) {
      const payment_status = index === 0 ? 'refunded' : 'paid';
      await shop.add({ created_at, payment_status, purchase_value_in_cents: 10 ** index });
    }
    await shop.publish();
    const get = async (path: string) => (await shop.get(`/v1/purchases/${path}`)).json();
    const sums = { new: 1, returning: 110, 'new&status=paid': 10, 'returning&status=paid': 100 };
    for (const [query, sum] of Object.entries(sums)) {
      const filter = `customer_type=${query}`;
      const report = await get(
        `report?${filter}&group_by=day&measures=revenue_in_cents,customer_count`,
      );
      expect(report.totals, query).toEqual({ revenue_in_cents: sum, customer_count: 1 });
      // The periods are those of the purchases that match.
      expect(report.rows, query).toHaveLength({ new: 1, returning: 15 }[query] ?? 1);
      expect(await get(`stats?${filter}`), query).toMatchObject({ revenue_in_cents: sum });
      const series = await get(`timeseries?interval=auto&${filter}`);
      expect(series, query).toMatchObject({ revenue_in_cents: sum });
    }
    const later = 'created_since=2026-01-06T00:00:00Z';
    expect((await get(`report?customer_type=new&${later}`)).totals.purchase_count).toBe(0);
    for (const url of ['?', '/export?', '/cohorts?']) {
      const response = await shop.get(`/v1/purchases${url}customer_type=new`);
      expectRefusal(response, 'validation_error', 'customer_type');
    }
  });

  it('apply together', async () => {
    const match = { payment_status: 'paid', platform: 'popup', purchase_value_in_cents: 10 };
    await shop.add(match);
    await shop.add({ ...match, payment_status: 'voided' });
    await shop.add({ ...match, platform: 'bling' });
    await shop.add({ ...match, purchase_value_in_cents: 9 });
    await shop.publish();
    expect(await found('status=paid&platform=popup&min_value_in_cents=10')).toBe(1);
  });

  it('compare tracking values of statistics exactly', async () => {
    const names = ['utm_source', 'utm_medium', 'utm_campaign', 'utm_content', 'utm_term'];
    for (const name of names) {
      for (const value of ['Verão 1', 'verão 1', 'Verão', 'Verão 1 ', null]) {
        await shop.add({ [name]: value });
      }
    }
    await shop.publish();
    for (const name of names) {
      expect(await found(`${name}=${encodeURIComponent('Verão 1')}`), name).toBe(1);
    }
  });
});

const centsOf = (purchase: { readonly purchase_value_in_cents: number }): number =>
  purchase.purchase_value_in_cents;
