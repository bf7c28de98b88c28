import { describe, expect } from 'vitest';
import { test as it } from '../support/fixtures.ts';
import { expectRefusal } from './refusal.ts';
import { customerUrl, servedShop, servings } from './served-shop.ts';

describe.each(servings)('the filters of purchases, %s,', (serving) => {
  const shop = servedShop(serving);

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
    const sources = ['google', 'facebook', 'google,facebook', 'bing'];
    for (const [cents, utm_source] of sources.entries()) {
      const purchase_value_in_cents = 10 ** cents;
      await shop.add({ utm_source, purchase_value_in_cents, created_at: '2026-01-01T00:00:00Z' });
    }
    await shop.publish();
    const filter = 'utm_source=google&utm_source=facebook&min_value_in_cents=10';
    for (const query of [filter, filter.replace('&utm_source=google', '')]) {
      const { data } = (await shop.get(`/v1/purchases?${query}`)).json();
      expect(data.map(centsOf)).toEqual([10]);
      const series = (await shop.get(`/v1/purchases/timeseries?interval=day&${query}`)).json();
      expect(series.series[0].periods.map((period: Period) => period.revenue_in_cents)).toEqual([
        10,
      ]);
      const report = (await shop.get(`/v1/purchases/report?group_by=utm_source&${query}`)).json();
      expect(report.rows).toMatchObject([{ utm_source: 'facebook', revenue_in_cents: 10 }]);
      expect(report.totals).toMatchObject({ purchase_count: 1, revenue_in_cents: 10 });
      const exported = await shop.get(`/v1/purchases/export?format=ndjson&${query}`);
      expect(
        exported.body
          .trim()
          .split('\n')
          .map((line) => centsOf(JSON.parse(line))),
      ).toEqual([10]);
    }
    const tagOf = async (query: string) =>
      (await shop.get(`/v1/purchases/stats?${query}`)).headers.etag;
    const both = await tagOf('utm_source=google&utm_source=facebook');
    expect(await tagOf('utm_source=facebook&utm_source=google')).toBe(both);
    for (const query of [
      'utm_source=google',
      'utm_source=facebook',
      'utm_source=google,facebook',
    ]) {
      expect(await tagOf(query)).not.toBe(both);
    }
    // All purchases are of one customer, and the first one is of google.
    const cohorts = async (query: string) =>
      (await shop.get(`/v1/purchases/cohorts?${query}`)).json().rows.length;
    expect(await cohorts('utm_source=bing&utm_source=google')).toBe(1);
    expect(await cohorts('utm_source=bing&utm_source=facebook')).toBe(0);
  });

  it('find purchases without a value of a label', async () => {
    await shop.add({ utm_campaign: 'a', payment_status: 'paid', status: null });
    await shop.add({ utm_campaign: null, payment_status: 'paid' });
    await shop.add({ utm_campaign: null, payment_status: null, status: 'open' });
    await shop.publish();
    expect(await found('without=utm_campaign')).toBe(2);
    expect(await found('without=utm_campaign,status')).toBe(1);
    expect(await found('without=utm_campaign&status=paid,voided')).toBe(1);
    expect(await found('without=utm_campaign&utm_campaign=a')).toBe(0);
  });

  it('select purchases by the codes of their coupons on every route', async () => {
    const codes = [['VIP'], ['FREE', 'VIP'], ['free'], [], [7], ['7', 'FREE', 'FREE'], ['A,B']];
    for (const [index, all] of [...codes, null].entries()) {
      const coupons = all && JSON.stringify(all.map((code) => ({ code })));
      await shop.add({ coupons, purchase_value_in_cents: 10 ** index });
    }
    await shop.publish();
    // The digits say which purchases are found.
    const sums = {
      'coupon=VIP': 11,
      'coupon=FREE': 100_010,
      'coupon=FREE&coupon=VIP': 100_011,
      'coupon=7': 110_000,
      'coupon=A,B': 1_000_000,
      'coupon=absent': 0,
      'without=coupon': 10_001_000,
      'without=coupon,currency&coupon=VIP': 0,
      'coupon=VIP&min_value_in_cents=10': 10,
    };
    for (const [query, sum] of Object.entries(sums)) {
      await expectSum(query, sum);
      const series = (await shop.get(`/v1/purchases/timeseries?interval=day&${query}`)).json();
      expect(series.revenue_in_cents, query).toBe(sum);
    }
    // The first purchase of the only customer has the coupon VIP alone.
    const cohorts = async (query: string) =>
      (await shop.get(`/v1/purchases/cohorts?${query}`)).json().rows.length;
    expect(await cohorts('coupon=VIP')).toBe(1);
    expect(await cohorts('coupon=FREE')).toBe(0);
  });

  it('leave out purchases with a value, and none without one', async () => {
    const names = ['utm_source', 'utm_medium', 'utm_campaign', 'utm_content', 'utm_term'];
    const values = ['google', 'facebook', 'Google', 'a:b', null];
    for (const value of values) {
      const labels = Object.fromEntries(names.map((name) => [name, value]));
      const coupons = value === null ? null : JSON.stringify([{ code: value }, { code: 'ALL' }]);
      await shop.add({ ...labels, coupons, currency: value === null ? null : 'brl' });
    }
    await shop.add({ payment_status: 'paid', platform: 'bling', shipping_status: 'shipped' });
    await shop.publish();
    for (const name of [...names, 'coupon']) {
      expect(await found(`not=${name}:google`), name).toBe(5);
      expect(await found(`not=${name}:google&not=${name}:facebook`), name).toBe(4);
      expect(await found(`not=${name}:absent`), name).toBe(6);
      expect(await found(`not=${name}:a:b&without=${name}`), name).toBe(2);
      expect(await found(`not=${name}:Google&${name}=google&${name}=Google`), name).toBe(1);
    }
    expect(await found('not=coupon:ALL')).toBe(2);
    expect(await found('not=currency:BRL')).toBe(2);
    for (const excluded of ['status:paid', 'platform:bling', 'shipping_status:shipped']) {
      expect(await found(`not=${excluded}`), excluded).toBe(5);
    }
    expect(await found('not=utm_source:google&not=utm_medium:facebook&not=status:paid')).toBe(3);
  });

  it('select days of the week and hours of local time on every route', async () => {
    // The clocks of São Paulo were two hours behind UTC until 17 February 2019, and three since.
    const instants = {
      1: '2019-02-15T01:59:59.999999Z',
      10: '2019-02-15T02:00:00Z',
      100: '2019-02-20T02:59:59.999999Z',
      1000: '2019-02-20T03:00:00Z',
    };
    for (const [cents, created_at] of Object.entries(instants)) {
      await shop.add({ created_at, purchase_value_in_cents: Number(cents) });
    }
    await shop.publish();
    const local = 'timezone=America/Sao_Paulo';
    const sums = {
      'weekday=5': 11,
      'weekday=3': 1100,
      'weekday=1,2': 0,
      'hour_of_day=1,2&weekday=5': 11,
      'hour_of_day=3': 1000,
      [`weekday=4&${local}`]: 1,
      [`weekday=5&${local}`]: 10,
      [`weekday=2,3&${local}`]: 1100,
      [`hour_of_day=23&${local}`]: 101,
      [`hour_of_day=0&${local}`]: 1010,
      [`hour_of_day=0&weekday=3,4&${local}`]: 1000,
      [`hour_of_day=0&${local}&created_since=2019-02-18T00:00:00Z`]: 1000,
      [`hour_of_day=23&${local}&created_until=2019-02-16T00:00:00Z`]: 1,
    };
    for (const [query, sum] of Object.entries(sums)) {
      await expectSum(query, sum);
    }
    const compared =
      'created_since=2019-02-20T00:00:00-03:00&created_until=2019-02-20T23:59:59.999999-03:00';
    const path = `/v1/purchases/report?hour_of_day=23,0&${compared}&compare_to=previous_period&${local}`;
    expect((await shop.get(path)).json().totals).toMatchObject({
      revenue_in_cents: 1000,
      compared: { revenue_in_cents: 100 },
    });
    // The first purchase of the only customer is on a Friday of UTC.
    const cohorts = async (query: string) =>
      (await shop.get(`/v1/purchases/cohorts?${query}`)).json().rows.length;
    expect(await cohorts('weekday=5')).toBe(1);
    expect(await cohorts(`weekday=5&${local}`)).toBe(0);
    for (const url of [
      '/v1/purchases?',
      `${customerUrl(shop.customerId)}?`,
      '/v1/purchases/export?',
    ]) {
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

type Period = { readonly revenue_in_cents: number };

const centsOf = (purchase: { readonly purchase_value_in_cents: number }): number =>
  purchase.purchase_value_in_cents;
