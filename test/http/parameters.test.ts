import { describe, expect } from 'vitest';
import { readSettings } from '../../src/settings/settings.ts';
import { test } from '../support/fixtures.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { describedOperations, type Operation } from './endpoints.ts';
import { addFullShop, type FullShop } from './full-shop.ts';
import { parameters } from './parameter-values.ts';
import { expectRefusal } from './refusal.ts';

let shop: FullShop;
let operations: readonly Operation[];

const it = test
  .extend(
    'send',
    ({ api }) =>
      (url: string) =>
        api.get(url, shop.secret),
  )
  /** Sends a query to an operation, with the parameters that it requires. */
  .extend('sendTo', ({ send }) => ({ path, parameters }: Operation, query: string) => {
    const url = path.replace(/\{(\w+)\}/, (_, of: keyof FullShop['ids']) => shop.ids[of][0] ?? '');
    const needs = (name: string, value: string) =>
      parameters.includes(name) && !new RegExp(`\\b${name}\\b`).test(query)
        ? `&${name}=${value}`
        : '';
    const needed = `${needs('interval', 'week')}${needs('order_number', '1')}`;
    const isOption = /^(separator|decimal|amounts|timezone)\b/.test(query);
    const format = isOption && parameters.includes('format') ? '&format=csv_excel' : '';
    const since = /^compare_to\b/.test(query) ? '&created_since=2026-01-01T00:00:00Z' : '';
    const isExpanded = /^expand\b/.test(query) && parameters.includes('expand');
    const customers = isExpanded ? '&group_by=customer' : '';
    return send(`${url}?${query}${needed}${format}${since}${customers}`);
  });

it.beforeAll(async ({ api, database, worker }) => {
  shop = await addFullShop(database.pool, 'Mine', 3);
  await worker.syncAll();
  const { body } = await api.get('/openapi.json');
  operations = describedOperations(body).filter(({ path }) => path.startsWith('/v1'));
});

const having = (name: string) => operations.filter(({ parameters }) => parameters.includes(name));

/** Each value with one operation. All routes read parameters by one function, so each sends a few. */
const pairs = <Value>(some: readonly Operation[], values: readonly Value[], first = 0) =>
  values.map((value, index) => ({
    operation: some[(first + index) % some.length] as Operation,
    value,
  }));
const positionOf = (name: string) => Object.keys(parameters).indexOf(name);

describe('the value of a parameter', () => {
  it('has a line in the table if a route has the parameter', () => {
    const all = new Set(operations.flatMap(({ parameters }) => parameters));
    expect([...all].sort()).toEqual([...Object.keys(parameters), 'starting_after'].sort());
  });

  it.for(Object.entries(parameters))(
    'is accepted by every route if it is valid: %s',
    async ([name, { accepted }], { sendTo }) => {
      for (const { operation, value } of pairs(having(name), accepted, positionOf(name))) {
        const response = await sendTo(operation, `${name}=${value}`);
        expect(response.statusCode, `${operation.path} ${value}: ${response.body}`).toBe(200);
      }
    },
  );

  it.for(Object.entries(parameters))(
    'is refused by every route if it is invalid, and the parameter is named: %s',
    async ([name, { refused }], { sendTo }) => {
      for (const { operation, value } of pairs(having(name), refused, positionOf(name))) {
        const response = await sendTo(operation, `${name}=${value}`);
        expect(expectRefusal(response, 'validation_error', name).error.message).toContain(name);
      }
      // An unfilled field of a BI tool.
      for (const { operation } of pairs(having(name), [''], positionOf(name))) {
        const { error } = expectRefusal(await sendTo(operation, name), 'validation_error', name);
        const isRequired =
          name === 'order_number' ||
          (name === 'interval' && operation.path.endsWith('/timeseries'));
        expect(error.message).toMatch(isRequired ? /must be/ : /leave the parameter out/);
      }
    },
  );

  it.for([
    ['purchases?min_value_in_cents=9223372036854775808', 'from 0 to 9223372036854775807'],
    ['customers?ids=cus_a,', 'ids that begin with cus_, with commas'],
    ['flows?sort=name', 'sort must be updated.'],
    ['purchases/search', 'order_number is required.'],
    [
      'purchases?status=any,paid',
      'status must be any alone, or one or more of pending, authorized',
    ],
    ['purchases?platform=bling,magento', 'platform must be one or more of shopify, nuvemshop'],
    ['purchases?without=order_number', 'without must be one or more of status, platform, currency'],
    ['purchases/report?group_by=day,week', 'group_by has day and week: a report has at most one'],
    ['purchases/report?group_by=hour,status,platform,currency', 'group_by must be one to 3 of'],
    ['purchases/report?measures=purchase_count&order_by=-revenue_in_cents', 'order_by must be one'],
    ['purchases/report?compare_to=previous_year', 'compare_to needs created_since'],
    ['purchases?platform=bling,popup,bling', 'each name once, and has bling more than once'],
    ['purchases?utm_source=a&utm_source=a', 'utm_source must have each value once'],
    ['purchases?status=paid&status=voided', 'parameter "status" is given more than once'],
  ])('is refused with what it must be: %s', async ([url, expected], { send }) => {
    expect((await send(`/v1/${url}`)).json().error.message).toContain(expected);
  });
});

describe('the name of a parameter', () => {
  it('is accepted beside all others of its route', async ({ sendTo }) => {
    const valid: Record<string, string> = {
      created_since: '2026-01-01T00:00:00Z',
      created_until: '2026-02-01T00:00:00Z',
      updated_since: '2026-01-01T00:00:00Z',
      sort: 'total_spent',
      format: 'csv_excel',
    };
    for (const operation of operations.filter(({ parameters }) => parameters.length > 0)) {
      const names = operation.parameters.filter(
        (name) => name !== 'cursor' && (name !== 'sort' || /customers/.test(operation.path)),
      );
      const pairs = names.map((name) => {
        const cursor = name === 'starting_after' ? shop.ids[operation.resource][0] : undefined;
        const isExpanded = name === 'group_by' && operation.parameters.includes('expand');
        const customer = isExpanded ? 'customer' : undefined;
        return `${name}=${cursor ?? customer ?? valid[name] ?? parameters[name]?.accepted[0]}`;
      });
      const response = await sendTo(operation, pairs.join('&'));
      expect(response.statusCode, `${operation.path}: ${response.body}`).toBe(200);
    }
  });

  it('is refused by routes that do not have it', async ({ sendTo }) => {
    const names = Object.keys(parameters);
    const lacks = ({ parameters: known }: Operation, name: string) => !known.includes(name);
    const ofNames = names.flatMap((name, index) => {
      const lacking = operations.filter((operation) => lacks(operation, name));
      return pairs(lacking, [name], index);
    });
    const ofRoutes = operations.flatMap((operation, index) => {
      const missing = names.filter((name) => lacks(operation, name));
      return [{ operation, value: missing[index % missing.length] as string }];
    });
    for (const { operation, value: name } of [...ofNames, ...ofRoutes]) {
      expectRefusal(await sendTo(operation, `${name}=1`), 'validation_error', name);
    }
  });

  it('is refused if no route has it', async ({ sendTo }) => {
    const names = [
      ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf', 'prototype', 'then'],
      ...['foo', 'Limit', 'LIMIT', 'page', 'organization_id', 'customerId', 'limit[]', 'api_key'],
      ...['limit.', '$limit', 'é', '🛒', '0', 'a'.repeat(2000), '\u0000123'],
    ];
    for (const { operation, value: name } of pairs(operations, names)) {
      const encoded = encodeURIComponent(name);
      for (const query of [`${encoded}=1`, encoded, `${encoded}=`, `${encoded}=1&${encoded}=2`]) {
        expectRefusal(await sendTo(operation, query), 'validation_error', name);
      }
    }
  });

  it('is refused if it is repeated, whatever its values and its spelling', async ({ sendTo }) => {
    for (const [route, operation] of operations.entries()) {
      const { parameters: names } = operation;
      for (const [index, name] of names.entries()) {
        if (index % 4 !== route % 4) continue;
        const value = parameters[name]?.accepted[0] ?? 'a';
        const other = `%${name.charCodeAt(0).toString(16)}${name.slice(1)}=${value}`;
        const queries = [
          `${name}=${value}&${name}=`,
          `${name}&${name}`,
          `${other}&${name}=${value}`,
        ];
        const query = queries[index % queries.length] as string;
        expectRefusal(await sendTo(operation, query), 'validation_error', name);
      }
    }
  });

  it('may be percent-encoded, and may be missing in an empty query string', async ({ send }) => {
    expect((await send('/v1/purchases?%6Cimit=1')).json().data).toHaveLength(1);
    for (const query of ['?', '?&', '?&&']) {
      expect((await send(`/v1/purchases${query}`)).statusCode).toBe(200);
    }
    const { error } = expectRefusal(await send('/v1/purchases?=1'), 'validation_error');
    expect(error.message).toBe('The query string has a value without a name.');
    const second = await send('/v1/purchases?limit=1?status=paid');
    expectRefusal(second, 'validation_error', 'limit');
  });
});

// Two purchases one microsecond apart show that bounds have microsecond precision.
const first = '2026-01-01T00:00:00.000001Z';
const second = '2026-01-01T00:00:00.000002Z';
describe('a date', () => {
  let secret: string;
  it.beforeAll(async ({ database, worker }) => {
    const organizationId = await addOrganization(database.pool);
    ({ secret } = await addKey(database.pool, organizationId));
    const customer_id = await addCustomer(database.pool, organizationId);
    for (const created_at of [first, second]) {
      await addPurchase(database.pool, organizationId, { customer_id, created_at });
    }
    await worker.syncAll();
  });

  it.for([
    ['since', '2026-01-01T00:00:00.000002Z', [second]],
    ['since', '2026-01-01T00:00:00.000002', [second]],
    ['since', '2026-01-01t00:00:00.000002z', [second]],
    ['since', '2026-01-01T03:00:00.000002%2B03:00', [second]],
    // The + of an offset arrives as a space.
    ['since', '2026-01-01T03:00:00.000002+03:00', [second]],
    ['since', '2025-12-31T21:30:00.000002-02:30', [second]],
    ['since', '2026-01-01T00:00:00.000002-00:00', [second]],
    ['since', '2026-01-01T00%3A00%3A00.000002Z', [second]],
    ['since', '2026-01-01T00:00:00.000001001Z', [second]],
    ['until', '2026-01-01T00:00:00.000001Z', [first]],
    ['until', '2026-01-01T00:00:00.000001', [first]],
    ['until', '2026-01-01T14:00:00.000001%2B14:00', [first]],
    ['until', '2025-12-31T12:00:00.000001-12:00', [first]],
    ['until', '2026-01-01T00:00:00.000001999Z', [first]],
    ['since', '2026-01-01T00:00:00Z', [second, first]],
    ['since', '2026-01-01T00:00Z', [second, first]],
    ['since', '0001-01-01T00:00:00Z', [second, first]],
    ['since', '2024-02-29T00:00:00Z', [second, first]],
    ['since', '9999-12-31T23:59:59.999999Z', []],
    ['until', '9999-12-31T23:59:59.999999Z', [second, first]],
    ['since', `${first}&created_until=${first}`, [first]],
  ] as const)(
    'is an inclusive bound to the microsecond, in UTC without an offset: %s %s',
    async ([bound, value, expected], { api }) => {
      const query = `created_${bound}=${value}`;
      const list = await api.get(`/v1/purchases?${query}`, secret);
      const created = list.json().data.map((item: { created_at: string }) => item.created_at);
      expect(created).toEqual(expected);
      const stats = await api.get(`/v1/purchases/stats?${query}`, secret);
      expect(stats.json().purchase_count).toBe(expected.length);
    },
  );
});

it('the limits are 600 requests a minute by default, also without a valid key', async ({
  startApi,
}) => {
  const { rateLimitPerMinute, failedKeysPerMinute } = readSettings({});
  expect([rateLimitPerMinute, failedKeysPerMinute]).toEqual([600, 600]);
  const api = await startApi({ rateLimitPerMinute });
  const { headers } = await api.get('/v1/me', shop.secret);
  expect(headers).toMatchObject({
    'x-ratelimit-limit': '600',
    'x-ratelimit-remaining': '599',
  });
});
