import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { test } from '../support/fixtures.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { expectRefusal } from './refusal.ts';
import { servings } from './served-shop.ts';

const utmNames = ['utm_source', 'utm_medium', 'utm_campaign', 'utm_content', 'utm_term'];
const amountNames = ['min_value_in_cents', 'max_value_in_cents'];
const unknownPurchase = encodeId('purchase', 999_999_999n);

describe.each(servings)('a parameter, %s:', (serving) => {
  let secret: string;
  let customer: string;
  let ownPurchase: string;
  let foreignPurchase: string;

  const it = test
    /** Sends the query string unchanged: tests encode the values. */
    .extend(
      'send',
      ({ api }) =>
        (route: string, query: string) =>
          api.get(`${urlOf(route)}?${query}`, secret),
    )
    .extend('expectAccepted', ({ send }) => async (routes: readonly string[], query: string) => {
      for (const route of routes) {
        const response = await send(route, query);
        expect(response.statusCode, `${route}?${query}: ${response.body}`).toBe(200);
      }
    })
    .extend(
      'expectRefused',
      ({ send }) =>
        async (routes: readonly string[], name: string, value: string) => {
          for (const route of routes) {
            const { error } = expectRefusal(
              await send(route, `${name}=${value}`),
              'validation_error',
              name,
            );
            expect(error.message).toContain(name);
          }
        },
    );

  it.beforeAll(async ({ database, worker }) => {
    const organizationId = await addOrganization(database.pool);
    ({ secret } = await addKey(database.pool, organizationId));
    const customerId = await addCustomer(database.pool, organizationId);
    customer = encodeId('customer', customerId);
    for (let count = 0; count < 26; count += 1) {
      const id = await addPurchase(database.pool, organizationId, { customer_id: customerId });
      ownPurchase = encodeId('purchase', id);
    }
    const other = await addOrganization(database.pool);
    const foreign = await addPurchase(database.pool, other, {
      customer_id: await addCustomer(database.pool, other),
    });
    foreignPurchase = encodeId('purchase', foreign);
    if (serving === 'from published files') await worker.syncAll();
  });

  /** The URL of a route. */
  const urlOf = (route: string): string =>
    ({
      list: '/v1/purchases',
      customer: `/v1/customers/${customer}/purchases`,
      stats: '/v1/purchases/stats',
      purchase: `/v1/purchases/${ownPurchase}`,
      identity: '/v1/me',
    })[route] as string;
  const lists = ['list', 'customer'];
  const filtered = [...lists, 'stats'];

  describe('limit', () => {
    it.for([
      ['1', 1],
      ['2', 2],
      ['00005', 5],
      ['25', 25],
      ['100', 26],
    ] as const)('of %s is accepted', async ([value, length], { send }) => {
      for (const route of lists) {
        expect((await send(route, `limit=${value}`)).json().data).toHaveLength(length);
      }
    });

    it('is 25 by default', async ({ send }) => {
      for (const route of lists) {
        const { data, has_more: hasMore } = (await send(route, '')).json();
        expect(data).toHaveLength(25);
        expect(hasMore).toBe(true);
      }
    });

    it.for([
      ...['', '0', '000', '101', '-1', '-0', '%2B5', '+5', '1.5', '1.0', '1,5', '1e1', '0x10'],
      ...['abc', '5a', 'NaN', 'Infinity', 'null', 'true', '%205', '5%20', '5%0A', '5%00'],
      ...['%EF%BC%95', '%D9%A5', '2147483648', '9223372036854775808', '9'.repeat(400)],
    ])('of "%s" is refused', (value, { expectRefused }) => expectRefused(lists, 'limit', value));
  });

  describe('group_limit', () => {
    it.for(['1', '10', '50'])('of %s is accepted', (value, { expectAccepted }) =>
      expectAccepted(['stats'], `group_by=day&group_limit=${value}`),
    );

    it.for(['', '0', '51', '-1', '1.5', '1e1', 'abc', '%205', '9223372036854775808'])(
      'of "%s" is refused',
      (value, { expectRefused }) => expectRefused(['stats'], 'group_limit', value),
    );
  });

  describe('status', () => {
    it.for(['any', 'pending', 'authorized', 'paid', 'abandoned', 'refunded', 'voided'])(
      '%s is accepted',
      (value, { expectAccepted }) => expectAccepted(filtered, `status=${value}`),
    );

    it.for(['', 'PAID', 'paid%20', 'paid,pending', 'open', 'null', 'toString', '__proto__'])(
      '"%s" is refused',
      (value, { expectRefused }) => expectRefused(filtered, 'status', value),
    );
  });

  describe('platform', () => {
    it.for(['shopify', 'nuvemshop', 'woocommerce', 'bling', 'facebook', 'popup'])(
      '%s is accepted',
      (value, { expectAccepted }) => expectAccepted(filtered, `platform=${value}`),
    );

    it.for(['', 'any', 'Shopify', 'magento', 'shopify,bling', 'constructor'])(
      '"%s" is refused',
      (value, { expectRefused }) => expectRefused(filtered, 'platform', value),
    );
  });

  describe('group_by', () => {
    it.for(['status', 'platform', 'currency', 'day', ...utmNames])(
      '%s is accepted',
      (value, { expectAccepted }) => expectAccepted(['stats'], `group_by=${value}`),
    );

    it.for(['', 'Day', 'month', 'payment_status', 'customer_id', 'toString', 'day,status'])(
      '"%s" is refused',
      (value, { expectRefused }) => expectRefused(['stats'], 'group_by', value),
    );
  });

  describe.each(amountNames)('%s', (name) => {
    it.for(['0', '1', '007', '9007199254740993', '9223372036854775807'])(
      'of %s is accepted',
      (value, { expectAccepted }) => expectAccepted(filtered, `${name}=${value}`),
    );

    it.for([
      ...['', '-1', '-0', '%2B1', '1.5', '1.00', '1e3', '0x10', 'abc', '%201', '1%00', '1_000'],
      ...['R$1', 'NaN', '9223372036854775808', '18446744073709551616', '9'.repeat(1000)],
    ])('of "%s" is refused', (value, { expectRefused }) => expectRefused(filtered, name, value));
  });

  describe('customer_id', () => {
    it('that is well-formed is accepted, even if it is unknown', async ({ expectAccepted }) => {
      for (const value of [customer, 'cus_nobody', 'cus_a-b_c', `cus_${'a'.repeat(2000)}`]) {
        await expectAccepted(['list', 'stats'], `customer_id=${value}`);
      }
    });

    it.for([
      ...['', 'cus_', 'cus', 'CUS_abc', 'pur_abc', 'customer_abc', '_abc', '1', 'cus_a%20b'],
      ...['%20cus_abc', 'cus_abc%0A', 'cus_abc%00', 'cus_a.b', 'cus_%C3%A9', 'cus_a,cus_b'],
    ])('"%s" is refused', (value, { expectRefused }) =>
      expectRefused(['list', 'stats'], 'customer_id', value),
    );
  });

  describe('of a path', () => {
    it.for(['cus_abc', 'PUR_abc', 'pur_', 'abc', '1', 'pur_a%20b', 'pur_a.b', 'pur_%00', '%20'])(
      'that should be a purchase is refused if it is "%s"',
      async (id, { api }) => {
        const response = await api.get(`/v1/purchases/${id}`, secret);
        const { error } = expectRefusal(response, 'validation_error', 'purchase_id');
        expect(error.message).toContain('purchase_id');
      },
    );

    it.for(['pur_abc', 'CUS_abc', 'cus_', 'abc', '1', 'cus_a%2Fb', 'cus_%F0%9F%9B%92', 'stats'])(
      'that should be a customer is refused if it is "%s"',
      async (id, { api }) => {
        const response = await api.get(`/v1/customers/${id}/purchases`, secret);
        const { error } = expectRefusal(response, 'validation_error', 'customer_id');
        expect(error.message).toContain('customer_id');
      },
    );
  });

  describe('starting_after', () => {
    it('that is a purchase of the organization is accepted', ({ expectAccepted }) =>
      expectAccepted(lists, `starting_after=${ownPurchase}`));

    it('that names no purchase of the organization is an invalid cursor', async ({ send }) => {
      const unknown = [
        ...[
          unknownPurchase,
          foreignPurchase,
          customer,
          ownPurchase.toUpperCase(),
          `${ownPurchase}0`,
        ],
        ...['pur_', 'pur_nobody', 'abc', '1', 'pur_%00', `%20${ownPurchase}`],
        ...[`${ownPurchase}%0A`, `pur_${'a'.repeat(5000)}`, '9223372036854775808'],
      ];
      for (const route of lists) {
        for (const value of unknown) {
          const response = await send(route, `starting_after=${value}`);
          const { error } = expectRefusal(response, 'invalid_request', 'starting_after');
          expect(error.message).toContain('starting_after');
        }
      }
    });

    it('that is unknown is an invalid cursor, also if no purchase matches', async ({ send }) => {
      for (const route of lists) {
        const response = await send(route, `starting_after=${unknownPurchase}&platform=popup`);
        expectRefusal(response, 'invalid_request', 'starting_after');
      }
    });
  });

  describe.each(utmNames)('%s', (name) => {
    it.for([
      ['256 letters', 'a'.repeat(256)],
      ['256 characters of two bytes', '%C3%A9'.repeat(256)],
      ['256 characters beyond the basic plane', '%F0%9F%9B%92'.repeat(256)],
      ['odd characters', "%27%22%25%5C%3B--%0A%09+%7F%E2%80%A8'"],
    ] as const)('of %s is accepted', ([_name, value], { expectAccepted }) =>
      expectAccepted(['stats'], `${name}=${value}`),
    );

    it.for([
      ['empty text', ''],
      ['257 letters', 'a'.repeat(257)],
      ['257 characters beyond the basic plane', '%F0%9F%9B%92'.repeat(257)],
      ['a NUL', 'a%00b'],
    ] as const)('of %s is refused', ([_name, value], { expectRefused }) =>
      expectRefused(['stats'], name, value),
    );

    it('is a parameter of statistics only', ({ expectRefused }) => expectRefused(lists, name, 'a'));
  });
});
