import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { createTestApi } from '../support/api.ts';
import { createTestChangeFeed, createTestDuckDBEngine } from '../support/engines.ts';
import { test as it } from '../support/fixtures.ts';
import { testServices } from '../support/services.ts';
import { addCustomer, addPurchase } from '../support/shop.ts';
import { expectRefusal } from './refusal.ts';
import { servedShop } from './served-shop.ts';

const february = 'created_since=2026-02-01T00:00:00Z&created_until=2026-02-28T23:59:59.999999Z';

describe('reports and cohorts', () => {
  const shop = servedShop();
  const request = (path: string, headers?: Record<string, string>) =>
    shop.get(`/v1/purchases/${path}`, headers);
  const get = async (path: string) => {
    const response = await request(path);
    expect(response.statusCode, response.body).toBe(200);
    return response;
  };
  let other: bigint;
  const store = async () => {
    other = await addCustomer(shop.database.pool, shop.organizationId);
    for (const values of [
      { created_at: '2026-01-10T12:00:00Z', purchase_value_in_cents: 100, utm_source: 'google' },
      { created_at: '2026-02-05T12:00:00Z', purchase_value_in_cents: 201, customer_id: other },
      { created_at: '2026-02-10T12:00:00Z', purchase_value_in_cents: 50, utm_source: 'google' },
    ]) {
      await shop.add({ ...values, currency: 'BRL' });
    }
    await shop.publish();
  };
  const compared =
    'report?measures=revenue_in_cents,customer_count,new_customer_count&group_by=utm_source' +
    `&${february}&compare_to=previous_month&timezone=america/sao_paulo`;

  it('show sums beyond doubles and beyond 64 bits exactly', async () => {
    const greatest = 2n ** 63n - 1n;
    for (const cents of [greatest, greatest, 2n ** 53n + 1n]) {
      await shop.add({
        purchase_value_in_cents: cents,
        platform: cents === greatest ? 'vtex' : 'nuvemshop',
      });
    }
    await shop.publish();
    const { body } = await get('report?measures=revenue_in_cents&group_by=platform');
    expect(body).toContain(
      `"rows":[{"platform":"vtex","revenue_in_cents":${2n * greatest}},` +
        `{"platform":"nuvemshop","revenue_in_cents":${2n ** 53n + 1n}}]`,
    );
  });

  it('have the totals and the rows of both periods, as JSON and as a table', async () => {
    await store();
    const response = await get(compared);
    expect(response.body).toBe(
      '{"object":"purchase_report","timezone":"America/Sao_Paulo",' +
        '"measures":["revenue_in_cents","customer_count","new_customer_count"],' +
        '"group_by":["utm_source"],' +
        '"period":{"since":"2026-02-01T00:00:00.000000Z","until":"2026-02-28T23:59:59.999999Z","days":28},' +
        '"compared_period":{"since":"2026-01-01T00:00:00.000000Z","until":"2026-01-28T23:59:59.999999Z","days":28},' +
        '"currency":"BRL","mixed_currencies":false,' +
        '"totals":{"revenue_in_cents":251,"customer_count":2,"new_customer_count":1,' +
        '"compared":{"revenue_in_cents":100,"customer_count":1,"new_customer_count":1}},' +
        '"rows":[{"utm_source":null,"revenue_in_cents":201,"customer_count":1,"new_customer_count":1,' +
        '"compared":{"revenue_in_cents":0,"customer_count":0,"new_customer_count":0}},' +
        '{"utm_source":"google","revenue_in_cents":50,"customer_count":1,"new_customer_count":0,' +
        '"compared":{"revenue_in_cents":100,"customer_count":1,"new_customer_count":1}}],' +
        '"rows_truncated":false}',
    );
    expect((await get(`${compared}&format=csv&limit=1`)).headers['x-has-more']).toBe('true');
    const csv = await get(`${compared}&format=csv`);
    expect(csv.headers['x-has-more']).toBe('false');
    expect(csv.body.split('\r\n')).toEqual([
      'utm_source,revenue_in_cents,customer_count,new_customer_count,compared_revenue_in_cents,' +
        'compared_customer_count,compared_new_customer_count,currency,mixed_currencies',
      ',201,1,1,0,0,0,BRL,false',
      'google,50,1,0,100,1,1,BRL,false',
      '',
    ]);
    const units = await get(`${compared}&format=csv_excel&amounts=units&decimal=comma`);
    expect(units.body.split('\r\n').slice(0, 2)).toEqual([
      '\ufeffutm_source,revenue,customer_count,new_customer_count,compared_revenue,' +
        'compared_customer_count,compared_new_customer_count,currency,mixed_currencies',
      ',"2,01",1,1,"0,00",0,0,BRL,false',
    ]);
  });

  it('have the first four measures, and no rows, by default', async () => {
    await store();
    const totals = {
      purchase_count: 3,
      revenue_in_cents: 351,
      average_ticket_in_cents: 117,
      customer_count: 2,
    };
    expect((await get('report')).json()).toStrictEqual({
      object: 'purchase_report',
      timezone: 'UTC',
      measures: Object.keys(totals),
      group_by: [],
      period: { since: null, until: null, days: null },
      compared_period: null,
      currency: 'BRL',
      mixed_currencies: false,
      totals,
      rows: [],
      rows_truncated: false,
    });
    expect((await get('report?format=csv')).body.split('\r\n')).toEqual([
      'purchase_count,revenue_in_cents,average_ticket_in_cents,customer_count,currency,mixed_currencies',
      '3,351,117,2,BRL,false',
      '',
    ]);
  });

  it('have periods in the time zone, in the order of time, and public ids of customers', async () => {
    await store();
    const months = await get('report?group_by=month&measures=purchase_count&timezone=Asia/Tokyo');
    expect(months.json().rows).toStrictEqual([
      { month: '2025-12-31T15:00:00.000000Z', purchase_count: 1 },
      { month: '2026-01-31T15:00:00.000000Z', purchase_count: 2 },
    ]);
    const path =
      'report?group_by=customer,weekday,hour_of_day,customer_type&measures=revenue_in_cents';
    expectRefusal(await request(path), 'validation_error', 'group_by');
    const byCustomer = await get(path.replace(',customer_type', ''));
    const [first, another] = [shop.customerId, other].map((id) => encodeId('customer', id));
    expect(byCustomer.json().rows).toStrictEqual([
      { customer: another, weekday: 4, hour_of_day: 12, revenue_in_cents: 201 },
      { customer: first, weekday: 6, hour_of_day: 12, revenue_in_cents: 100 },
      { customer: first, weekday: 2, hour_of_day: 12, revenue_in_cents: 50 },
    ]);
    const types = await get(
      'report?group_by=customer_type&measures=purchase_count&order_by=customer_type',
    );
    expect(types.json().rows).toStrictEqual([
      { customer_type: 'new', purchase_count: 2 },
      { customer_type: 'returning', purchase_count: 1 },
    ]);
  });

  it('have a row for each coupon, of which totals count a purchase once', async () => {
    const codes = [['VIP', 'FREE'], ['VIP'], [], null];
    for (const [index, all] of codes.entries()) {
      const coupons = all && JSON.stringify(all.map((code) => ({ id: '1', code })));
      await shop.add({ coupons, purchase_value_in_cents: 10 ** index, currency: 'BRL' });
    }
    await shop.publish();
    const path = 'report?group_by=coupon&measures=revenue_in_cents,customer_count';
    const report = (await get(path)).json();
    expect(report.totals).toStrictEqual({ revenue_in_cents: 1111, customer_count: 1 });
    expect(report.rows).toStrictEqual([
      { coupon: null, revenue_in_cents: 1100, customer_count: 1 },
      { coupon: 'VIP', revenue_in_cents: 11, customer_count: 1 },
      { coupon: 'FREE', revenue_in_cents: 1, customer_count: 1 },
    ]);
    const limited = (await get(`${path}&limit=1&order_by=coupon`)).json();
    expect(limited.rows).toStrictEqual([report.rows[2]]);
    expect(limited.totals).toStrictEqual(report.totals);
    expect((await get(`${path}&coupon=FREE&format=csv`)).body.split('\r\n')).toEqual([
      'coupon,revenue_in_cents,customer_count,currency,mixed_currencies',
      'FREE,1,1,BRL,false',
      'VIP,1,1,BRL,false',
      '',
    ]);
  });

  it('order rows as asked, and say whether there are more', async () => {
    await store();
    const sources = async (query: string) => {
      const { rows, rows_truncated } = (await get(`report?group_by=utm_source&${query}`)).json();
      return [...rows.map((row: { utm_source: string | null }) => row.utm_source), rows_truncated];
    };
    expect(await sources('order_by=revenue_in_cents')).toEqual(['google', null, false]);
    expect(await sources('order_by=-revenue_in_cents')).toEqual([null, 'google', false]);
    expect(await sources('order_by=-utm_source')).toEqual(['google', null, false]);
    expect(await sources('order_by=-revenue_in_cents&limit=1')).toEqual([null, true]);
  });

  it('have one column of the currency if it is a dimension', async () => {
    await store();
    await shop.add({ currency: 'USD', created_at: '2026-02-01T00:00:00Z' });
    await shop.publish();
    const csv = await get('report?group_by=currency&measures=purchase_count&format=csv');
    expect(csv.body.split('\r\n')).toEqual([
      'currency,purchase_count,mixed_currencies',
      'BRL,3,true',
      'USD,1,true',
      '',
    ]);
    const arrow = await request('report?group_by=currency&format=arrow');
    expect(arrow.statusCode).toBe(200);
  });

  it('follow cohorts up to the present, as JSON and as a table', async () => {
    await store();
    const path = `cohorts?periods=2&group_by=utm_source&${february.replace('02-01', '01-01')}`;
    const { body } = await get(path);
    expect(body).toBe(
      '{"object":"purchase_cohorts","interval":"month","timezone":"UTC","group_by":"utm_source",' +
        '"currency":"BRL","mixed_currencies":false,' +
        '"totals":{"customer_count":2,"periods":[' +
        '{"cohort_customer_count":2,"customer_count":2,"purchase_count":2,"revenue_in_cents":301},' +
        '{"cohort_customer_count":2,"customer_count":1,"purchase_count":1,"revenue_in_cents":50}],' +
        '"groups":[{"key":"google","customer_count":1,"periods":[' +
        '{"cohort_customer_count":1,"customer_count":1,"purchase_count":1,"revenue_in_cents":100},' +
        '{"cohort_customer_count":1,"customer_count":1,"purchase_count":1,"revenue_in_cents":50}]},' +
        '{"key":null,"customer_count":1,"periods":[' +
        '{"cohort_customer_count":1,"customer_count":1,"purchase_count":1,"revenue_in_cents":201},' +
        '{"cohort_customer_count":1,"customer_count":0,"purchase_count":0,"revenue_in_cents":0}]}]},' +
        '"rows":[{"cohort":"2026-01-01T00:00:00.000000Z","key":"google","customer_count":1,"periods":[' +
        '{"customer_count":1,"purchase_count":1,"revenue_in_cents":100,"is_complete":true},' +
        '{"customer_count":1,"purchase_count":1,"revenue_in_cents":50,"is_complete":true}]},' +
        '{"cohort":"2026-02-01T00:00:00.000000Z","key":null,"customer_count":1,"periods":[' +
        '{"customer_count":1,"purchase_count":1,"revenue_in_cents":201,"is_complete":true},' +
        '{"customer_count":0,"purchase_count":0,"revenue_in_cents":0,"is_complete":true}]}]}',
    );
    const csv = await get(`${path}&format=csv`);
    expect(csv.body.split('\r\n')).toEqual([
      'cohort,key,cohort_customer_count,period,customer_count,purchase_count,revenue_in_cents,' +
        'is_complete,currency,mixed_currencies',
      '2026-01-01T00:00:00Z,google,1,0,1,1,100,true,BRL,false',
      '2026-01-01T00:00:00Z,google,1,1,1,1,50,true,BRL,false',
      '2026-02-01T00:00:00Z,,1,0,1,1,201,true,BRL,false',
      '2026-02-01T00:00:00Z,,1,1,0,0,0,true,BRL,false',
      '',
    ]);
  });

  it('are unchanged for the ETag of the same data', async () => {
    await store();
    for (const path of [compared, `cohorts?periods=2&${february}`]) {
      const { headers } = await get(path);
      const again = await request(path, { 'if-none-match': String(headers.etag) });
      expect([again.statusCode, again.body]).toEqual([304, '']);
      const another = await request(`${path}&utm_source=a`, {
        'if-none-match': String(headers.etag),
      });
      expect(another.statusCode).toBe(200);
    }
  });

  it('have zeros and no rows without purchases, and between inverted bounds', async () => {
    const expectNone = async (query: string) => {
      const report = (await get(`report?group_by=day&${query}`)).json();
      expect(report).toMatchObject({ rows: [], currency: null, mixed_currencies: false });
      expect(new Set(Object.values(report.totals))).toEqual(new Set([0]));
      const cohorts = (await get(`cohorts?${query}`)).json();
      expect(cohorts).toMatchObject({ rows: [], currency: null, mixed_currencies: false });
      expect(cohorts.totals).toEqual({ customer_count: 0, periods: [], groups: [] });
      expect((await get(`report?group_by=day&format=csv&${query}`)).body).toMatch(
        /^day,[^\n]*\r\n$/,
      );
    };
    await shop.publish();
    await expectNone('');
    await store();
    await expectNone('created_since=2026-03-31T00:00:00Z&created_until=2026-01-30T00:00:00Z');
  });

  it.for([
    ['report?measures=revenue', 'measures', 'one to 13 of purchase_count, revenue_in_cents'],
    ['report?measures=', 'measures', 'give it a value or leave'],
    ['report?measures=purchase_count,purchase_count', 'measures', 'purchase_count'],
    ['report?group_by=source', 'group_by', 'one to 3 of status, platform'],
    ['report?group_by=status,status', 'group_by', 'status'],
    ['report?group_by=day,month', 'group_by', 'at most one'],
    ['report?group_by=status,platform,currency,customer', 'group_by', 'one to 3'],
    ['report?order_by=-customer_count&measures=purchase_count', 'order_by', 'purchase_count'],
    ['report?order_by=utm_source', 'order_by', 'purchase_count'],
    ['report?order_by=--customer_count', 'order_by', 'a measure or a dimension'],
    ['report?compare_to=previous_period', 'compare_to', 'created_since'],
    [
      'report?group_by=week&compare_to=previous_year&created_since=2025-02-24T00:00:00Z',
      'compare_to',
      'previous_year has no week of the same dates: use previous_year_weekdays',
    ],
    [
      'report?group_by=utm_source,week&compare_to=previous_month&created_since=2025-02-24T00:00:00Z',
      'compare_to',
      'use previous_year_weekdays',
    ],
    ['report?compare_to=last_week', 'compare_to', 'previous_period, previous_month'],
    ['report?limit=1001', 'limit', '1000'],
    ['report?timezone=Mars', 'timezone', 'zone'],
    ['report?status=paid,paid', 'status', 'paid'],
    ['report?interval=day', 'interval', ''],
    [
      'report?group_by=hour&created_since=2026-01-01T00:00:00Z&created_until=2026-02-11T16:00:00Z',
      'group_by',
      'into 1001 periods, more than 1000',
    ],
    ['cohorts?interval=day', 'interval', 'week, month, quarter'],
    ['cohorts?periods=61', 'periods', '60'],
    ['cohorts?group_by=customer', 'group_by', 'one of status, platform'],
    ['cohorts?group_by=status,platform', 'group_by', 'one of status, platform'],
    ['cohorts?limit=1', 'limit', ''],
  ] as const)(
    'refuse %s with the parameter %s and say what would be right',
    async ([path, param, text]) => {
      await store();
      const { error } = expectRefusal(await request(path), 'validation_error', param);
      expect(error.message).toContain(text);
    },
  );
});

it('reports refuse more groups than memory is meant for, and say what would be right', async ({
  database,
  worker,
  directory,
  newShop: { organizationId, secret },
  onTestFinished,
}) => {
  for (const day of ['01', '02', '03']) {
    const customer_id = await addCustomer(database.pool, organizationId);
    const values = { customer_id, created_at: `2026-02-${day}T12:00:00Z` };
    await addPurchase(database.pool, organizationId, values);
  }
  await worker.once([organizationId]);
  const engine = await createTestDuckDBEngine(directory, { shortcuts: { maxReportGroups: 2 } });
  onTestFinished(engine.close);
  const changes = createTestChangeFeed(directory);
  onTestFinished(changes.close);
  const services = testServices(database.pool, engine, changes);
  const api = await createTestApi(database.pool, directory, { services });
  onTestFinished(api.close);
  const report = (query: string) => api.get(`/v1/purchases/report?${query}`, secret);
  const counted = await report('group_by=customer_type');
  expect(expectRefusal(counted, 'validation_error', 'group_by').error.message).toBe(
    'group_by may have 3 groups, customers and values of groups, more than 2: leave out customer_count, or ' +
      'choose later created_since and earlier created_until.',
  );
  const customers = await report('group_by=customer&measures=purchase_count');
  expect(expectRefusal(customers, 'validation_error', 'group_by').error.message).toContain(
    'more than 2: choose fewer dimensions, or',
  );
  const values = await report('measures=median_value_in_cents,revenue_in_cents');
  expect(expectRefusal(values, 'validation_error', 'measures').error.message).toContain(
    'more than 2: leave out median_value_in_cents, or',
  );
  for (const accepted of [
    'group_by=customer_type&measures=purchase_count',
    'group_by=customer&created_since=2026-02-02T12:00:00Z',
    'measures=customer_count',
  ]) {
    expect((await report(accepted)).statusCode, accepted).toBe(200);
  }
});
