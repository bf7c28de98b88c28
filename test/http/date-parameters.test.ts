import { describe, expect } from 'vitest';
import { test } from '../support/fixtures.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { expectRefusal } from './refusal.ts';
import { servings } from './served-shop.ts';

// Two purchases one microsecond apart show that bounds have microsecond precision.
const first = '2026-01-01T00:00:00.000001Z';
const second = '2026-01-01T00:00:00.000002Z';

describe.each(servings)('date parameters, %s', (serving) => {
  let secret: string;

  const it = test.extend(
    'matching',
    ({ api }) =>
      async (name: string, value: string): Promise<string[]> => {
        const list = await api.get(`/v1/purchases?${name}=${value}`, secret);
        expect(list.statusCode, list.body).toBe(200);
        const stats = await api.get(`/v1/purchases/stats?${name}=${value}`, secret);
        const created = list.json().data.map((item: { created_at: string }) => item.created_at);
        expect(stats.json().purchase_count).toBe(created.length);
        return created;
      },
  );

  it.beforeAll(async ({ database, worker }) => {
    const organizationId = await addOrganization(database.pool);
    ({ secret } = await addKey(database.pool, organizationId));
    const customer = { customer_id: await addCustomer(database.pool, organizationId) };
    for (const instant of [first, second]) {
      const values = { ...customer, created_at: instant };
      await addPurchase(database.pool, organizationId, values);
    }
    if (serving === 'from published files') await worker.syncAll();
  });

  it.for([
    ['inclusively', '2026-01-01T00:00:00.000002Z'],
    ['without an offset, as UTC', '2026-01-01T00:00:00.000002'],
    ['in lower case', '2026-01-01t00:00:00.000002z'],
    ['with an offset whose + is encoded', '2026-01-01T03:00:00.000002%2B03:00'],
    ['with an offset whose + arrives as a space', '2026-01-01T03:00:00.000002+03:00'],
    ['with a negative offset', '2025-12-31T21:30:00.000002-02:30'],
    ['with the offset -00:00', '2026-01-01T00:00:00.000002-00:00'],
    ['with the colons encoded', '2026-01-01T00%3A00%3A00.000002Z'],
    ['with nanoseconds, rounded into the range', '2026-01-01T00:00:00.000001001Z'],
  ] as const)('are a lower bound, %s', async ([_how, value], { matching }) => {
    expect(await matching('created_since', value)).toEqual([second]);
  });

  it.for([
    ['inclusively', '2026-01-01T00:00:00.000001Z'],
    ['without an offset, as UTC', '2026-01-01T00:00:00.000001'],
    ['with an offset whose + is encoded', '2026-01-01T14:00:00.000001%2B14:00'],
    ['with an offset whose + arrives as a space', '2026-01-01T03:00:00.000001+03:00'],
    ['with a negative offset', '2025-12-31T12:00:00.000001-12:00'],
    ['with nanoseconds, rounded into the range', '2026-01-01T00:00:00.000001999Z'],
  ] as const)('are an upper bound, %s', async ([_how, value], { matching }) => {
    expect(await matching('created_until', value)).toEqual([first]);
  });

  it.for([
    ['without a fraction', '2026-01-01T00:00:00Z'],
    ['without seconds', '2026-01-01T00:00Z'],
    ['from the first year', '0001-01-01T00:00:00Z'],
    ['from a leap day', '2024-02-29T00:00:00Z'],
  ] as const)('match all purchases, %s', async ([_how, value], { matching }) => {
    expect(await matching('created_since', value)).toEqual([second, first]);
  });

  it('may be the last instant', async ({ matching }) => {
    const end = '9999-12-31T23:59:59.999999Z';
    expect(await matching('created_since', end)).toEqual([]);
    expect(await matching('created_until', end)).toEqual([second, first]);
  });

  it('may select a single microsecond', async ({ api }) => {
    const query = `created_since=${first}&created_until=${first}`;
    const list = await api.get(`/v1/purchases?${query}`, secret);
    expect(list.json().data).toMatchObject([{ created_at: first }]);
  });

  it.for([
    ['empty', ''],
    ['a date alone', '2026-01-01'],
    ['a month', '2026-01'],
    ['a week', '2026-W01-1'],
    ['a time alone', '00:00:00Z'],
    ['seconds since 1970', '1767225600'],
    ['a word', 'now'],
    ['an infinite time', 'infinity'],
    ['an RFC 2822 date', 'Thu, 01 Jan 2026 00:00:00 GMT'],
    ['the 30th of February', '2026-02-30T00:00:00Z'],
    ['a leap day of a common year', '2025-02-29T00:00:00Z'],
    ['a 13th month', '2026-13-01T00:00:00Z'],
    ['a 0th month', '2026-00-01T00:00:00Z'],
    ['a 0th day', '2026-01-00T00:00:00Z'],
    ['a 32nd day', '2026-01-32T00:00:00Z'],
    ['24 hours', '2026-01-01T24:00:00Z'],
    ['60 minutes', '2026-01-01T00:60:00Z'],
    ['60 seconds', '2026-01-01T00:00:60Z'],
    ['61 seconds', '2026-01-01T00:00:61Z'],
    ['ten digits of a second', '2026-01-01T00:00:00.0000000001Z'],
    ['a point without digits', '2026-01-01T00:00:00.Z'],
    ['an offset of a day', '2026-01-01T00:00:00%2B24:00'],
    ['an offset of 60 minutes', '2026-01-01T00:00:00%2B00:60'],
    ['a name of a zone', '2026-01-01T00:00:00[UTC]'],
    ['an abbreviation of a zone', '2026-01-01T00:00:00BRT'],
    ['a year of five digits', '10000-01-01T00:00:00Z'],
    ['a year of two digits', '26-01-01T00:00:00Z'],
    ['the year 0', '0000-01-01T00:00:00Z'],
    ['a negative year', '-0001-01-01T00:00:00Z'],
    ['a date before the first year by its offset', '0001-01-01T00:00:00%2B01:00'],
    ['a date after the last year by its offset', '9999-12-31T23:59:59-01:00'],
    ['a leading space', '%202026-01-01T00:00:00Z'],
    ['a trailing line feed', '2026-01-01T00:00:00Z%0A'],
    ['a NUL', '2026-01-01T00:00:00Z%00'],
    ['digits of another script', '%D9%A2026-01-01T00:00:00Z'],
    ['SQL', "2026-01-01T00:00:00Z'%20or%201=1"],
  ] as const)('that are %s are refused', async ([_what, value], { api }) => {
    for (const name of ['created_since', 'created_until']) {
      for (const url of ['/v1/purchases', '/v1/purchases/stats']) {
        const response = await api.get(`${url}?${name}=${value.replaceAll(' ', '%20')}`, secret);
        const { error } = expectRefusal(response, 'validation_error', name);
        expect(error.message).toContain(name);
      }
    }
  });
});
