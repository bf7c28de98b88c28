import { describe, expect } from 'vitest';
import { test as it } from '../support/fixtures.ts';
import { addCustomer } from '../support/shop.ts';
import { servedShop } from './served-shop.ts';

describe('purchase statistics', () => {
  const shop = servedShop();

  type Added = NonNullable<Parameters<typeof shop.add>[0]>;
  async function store(...purchases: Added[]) {
    for (const values of purchases) await shop.add(values);
    await shop.publish();
  }
  const worth = (...cents: (number | bigint)[]): Added[] =>
    cents.map((value) => ({ purchase_value_in_cents: value }));
  async function get(query = '') {
    const response = await shop.get(`/v1/purchases/stats?${query}`);
    expect(response.statusCode, response.body).toBe(200);
    return response;
  }
  const stats = async (query = '') => (await get(query)).json();
  const keysOf = async (query: string) =>
    (await stats(query)).groups.map((group: { key: string | null }) => group.key);

  const nothing = {
    object: 'purchase_stats',
    purchase_count: 0,
    customer_count: 0,
    revenue_in_cents: 0,
    average_ticket_in_cents: 0,
    currency: null,
    mixed_currencies: false,
    group_by: null,
    groups: [],
    groups_truncated: false,
  };

  it('have every field if there is no purchase', async () => {
    await store();
    expect(await stats()).toStrictEqual(nothing);
    expect(await stats('group_by=day')).toStrictEqual({ ...nothing, group_by: 'day' });
  });

  it('have every field if no purchase matches', async () => {
    await store({ currency: 'BRL', utm_source: 'known' });
    for (const filter of ['utm_source=unknown', 'min_value_in_cents=1000', 'status=paid']) {
      expect(await stats(filter)).toStrictEqual(nothing);
      const grouped = { ...nothing, group_by: 'status' };
      expect(await stats(`${filter}&group_by=status`)).toStrictEqual(grouped);
    }
  });

  it('have every field of the specification', async () => {
    const other = await addCustomer(shop.database.pool, shop.organizationId);
    const [popup, brl] = [{ platform: 'popup' }, { currency: 'BRL' }];
    await store(
      { purchase_value_in_cents: 100, ...popup, ...brl },
      { purchase_value_in_cents: 201, ...popup, ...brl, customer_id: other },
      { purchase_value_in_cents: 50, platform: 'bling', ...brl },
    );
    const totals = {
      ...nothing,
      purchase_count: 3,
      customer_count: 2,
      revenue_in_cents: 351,
      average_ticket_in_cents: 117,
      currency: 'BRL',
    };
    expect(await stats()).toStrictEqual(totals);
    expect(await stats('group_by=platform&group_limit=1')).toStrictEqual({
      ...totals,
      group_by: 'platform',
      groups: [
        {
          key: 'popup',
          purchase_count: 2,
          revenue_in_cents: 301,
          average_ticket_in_cents: 151,
        },
      ],
      groups_truncated: true,
    });
  });

  it('return the only currency of the matching purchases, or null', async () => {
    const currencies = {
      shopify: { stored: ['BRL', 'BRL'], currency: 'BRL', mixed: false },
      nuvemshop: { stored: [null, null], currency: null, mixed: false },
      woocommerce: { stored: [null, 'USD', null], currency: 'USD', mixed: false },
      bling: { stored: ['BRL', 'USD'], currency: null, mixed: true },
      facebook: { stored: [null, 'BRL', 'USD'], currency: null, mixed: true },
    };
    for (const [platform, { stored }] of Object.entries(currencies)) {
      for (const currency of stored) await shop.add({ currency, platform });
    }
    await shop.publish();
    for (const [platform, { currency, mixed }] of Object.entries(currencies)) {
      const expected = { currency, mixed_currencies: mixed };
      expect(await stats(`platform=${platform}`), platform).toMatchObject(expected);
    }
    expect(await stats()).toMatchObject({ currency: null, mixed_currencies: true });
  });

  it('group by the day in UTC, or in a time zone, which changes nothing else', async () => {
    await store(
      { created_at: '2026-03-02T02:59:59.999999Z', purchase_value_in_cents: 3 },
      { created_at: '2026-03-02T03:00:00Z', purchase_value_in_cents: 2 },
      { created_at: '2026-03-01T23:30:00-02:00', purchase_value_in_cents: 2 },
      { created_at: '1969-12-31T23:59:59.999999Z', purchase_value_in_cents: 1 },
      { created_at: '0001-01-01T00:00:00Z', purchase_value_in_cents: 0 },
    );
    const days = ['2026-03-02', '1969-12-31', '0001-01-01'];
    for (const zone of ['', '&timezone=UTC', '&timezone=Etc%2FUTC']) {
      expect(await keysOf(`group_by=day${zone}`)).toEqual(days);
    }
    const plain = await stats('group_by=day');
    for (const name of ['America/Sao_Paulo', 'america/sao_paulo', 'Brazil/East']) {
      const zoned = await stats(`group_by=day&timezone=${name}`);
      expect(zoned.groups).toMatchObject([
        { key: '2026-03-01', purchase_count: 2 },
        { key: '2026-03-02', purchase_count: 1 },
        { key: '1969-12-31', purchase_count: 1 },
        { key: '0001-01-01', purchase_count: 1 },
      ]);
      expect({ ...zoned, groups: plain.groups }).toEqual(plain);
    }
    for (const query of ['', 'group_by=status']) {
      expect(await stats(`${query}&timezone=Asia/Tokyo`)).toEqual(await stats(query));
    }
  });

  it('group by the payment status for group_by=status', async () => {
    await store({ status: 'open', payment_status: 'paid' });
    expect(await keysOf('group_by=status')).toEqual(['paid']);
  });

  it('rank groups by revenue, then by count, then by key, null last', async () => {
    const group = (key: string | null, ...cents: number[]): Added[] =>
      worth(...cents).map((values) => ({ ...values, utm_source: key }));
    await store(
      ...group('b', 10),
      ...group('Z', 10),
      ...group('é', 10),
      ...group('🛒', 10),
      ...group('\uff5e', 10),
      ...group('', 10),
      ...group('a', 10),
      ...group(null, 10),
      ...group('two', 4, 6),
      ...group('three', 3, 3, 4),
      ...group('most', 11),
      ...group('refund', -5),
    );
    const keys = ['most', 'three', 'two', '', 'Z', 'a', 'b', 'é', '\uff5e', '🛒', null, 'refund'];
    expect(await keysOf('group_by=utm_source&group_limit=50')).toEqual(keys);
    expect(await keysOf('group_by=utm_source&group_limit=3')).toEqual(keys.slice(0, 3));
  });

  it('are truncated if there is one group more than the limit, and not otherwise', async () => {
    const labels = Array.from({ length: 11 }, (_, index) => ({ utm_content: `c${index}` }));
    await store(...labels);
    for (const [query, length, truncated] of [
      ['', 10, true],
      ['&group_limit=10', 10, true],
      ['&group_limit=11', 11, false],
      ['&group_limit=50', 11, false],
      ['&group_limit=1&utm_content=c3', 1, false],
    ] as const) {
      const { groups, groups_truncated, purchase_count } = await stats(
        `group_by=utm_content${query}`,
      );
      expect(groups).toHaveLength(length);
      expect(groups_truncated).toBe(truncated);
      // The totals cover the groups that are left out.
      expect(purchase_count).toBe(query.includes('c3') ? 1 : 11);
    }
    expect(await stats('group_limit=1')).toMatchObject({ groups: [], groups_truncated: false });
  });
});
