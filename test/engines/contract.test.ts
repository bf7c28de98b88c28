import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { formatInstant, parseInstant } from '../../src/domain/instant.ts';
import { averageTicket } from '../../src/domain/purchase-engine.ts';
import {
  labelDimensions,
  labelOfDimension,
  type PurchaseFilters,
  type StatsDimension,
} from '../../src/domain/purchase-query.ts';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import { test as it } from '../support/fixtures.ts';
import { describeEngines, hasClickHouse, type Stored, storeIn } from './store.ts';

const instant = (text: string): bigint => parseInstant(text, 'down') as bigint;

/** The contract of every engine, over the same rows. */
describeEngines('the engine %s', (name) => {
  const store = storeIn(name);
  const statsOf = async (
    organization: bigint,
    filters: PurchaseFilters = {},
    groupBy?: StatsDimension,
    groupLimit = 10,
  ) => {
    const query = { filters, groupLimit, ...(groupBy === undefined ? {} : { groupBy }) };
    return (await readPurchaseStats(store.engine, organization, query)).result;
  };

  it('counts purchases and distinct customers and adds their values to the cent', async () => {
    const { organization } = await store.shop([
      { purchase_value_in_cents: 2n ** 62n },
      { purchase_value_in_cents: 2n ** 62n },
      { purchase_value_in_cents: 2n ** 62n, customer: 1 },
      { purchase_value_in_cents: -1 },
    ]);
    expect(await statsOf(organization)).toMatchObject({
      purchaseCount: 4n,
      customerCount: 2n,
      revenueInCents: 3n * 2n ** 62n - 1n,
    });
  });

  it.for([{ currencies: [null, null, 'BRL', 'BRL'] }, { currencies: [null, 'BRL', 'BRL', 'USD'] }])(
    'returns the currencies of any successive purchases of $currencies',
    async ({ currencies }) => {
      const { organization } = await store.shop(
        currencies.map((currency, index) => ({ currency, purchase_value_in_cents: index })),
      );
      for (let first = 0; first < currencies.length; first += 1) {
        for (let last = first; last < currencies.length; last += 1) {
          const matching = currencies
            .slice(first, last + 1)
            .filter((currency) => currency !== null);
          const [currency = null, ...others] = new Set(matching);
          const filters = { minValueInCents: BigInt(first), maxValueInCents: BigInt(last) };
          expect(await statsOf(organization, filters, 'utm_source')).toMatchObject({
            currency: others.length === 0 ? currency : null,
            mixedCurrencies: others.length > 0,
          });
        }
      }
    },
  );

  it('applies each filter to lists and statistics', async () => {
    const plain = { created_at: '2026-01-01T00:00:00Z', purchase_value_in_cents: 100 };
    const many = ["o'neill", ...Array.from({ length: 49 }, (_, index) => `${index}`)];
    /** Each filter with the only purchase that it finds. */
    const cases: readonly [PurchaseFilters, Stored][] = [
      [{ paymentStatuses: ['paid'] }, { payment_status: 'paid' }],
      [{ platforms: ['shopify'] }, { platform: 'shopify' }],
      // No purchase has the other values.
      [{ paymentStatuses: ['pending', 'voided'] }, { payment_status: 'voided' }],
      [{ platforms: ['bling', 'facebook', 'popup'] }, { platform: 'facebook' }],
      [
        { createdSince: instant('2026-01-02T00:00:00.000001Z') },
        { created_at: '2026-01-02T00:00:00.000001Z' },
      ],
      [{ createdUntil: instant('2025-01-01T00:00:00Z') }, { created_at: '2025-01-01T00:00:00Z' }],
      [{ minValueInCents: 500n }, { purchase_value_in_cents: 500 }],
      [{ maxValueInCents: 10n }, { purchase_value_in_cents: 10 }],
      [{ currency: ['BRL'] }, { currency: 'BRL' }],
      [{ utm_source: ['verão', 'winter'] }, { utm_source: 'verão' }],
      [{ utm_medium: [''] }, { utm_medium: '' }],
      [{ utm_campaign: ['100%'] }, { utm_campaign: '100%' }],
      [{ utm_content: [' a '] }, { utm_content: ' a ' }],
      [{ utm_term: many }, { utm_term: "o'neill" }],
      [{ coupon: ['a"\\\n\u001f'] }, { coupons: JSON.stringify([{ code: 'a"\\\n\u001f' }]) }],
      [{ coupon: ['FREE', 'absent'] }, { coupons: '[{"code":"VIP"},{"code":"FREE"}]' }],
    ];
    const { organization, ids, customers } = await store.shop([
      ...cases.map(([, values]) => ({ ...plain, ...values })),
      { ...plain, customer: 1 },
      plain,
    ]);
    const ofCustomer: PurchaseFilters = { customerId: customers[1] as bigint };
    for (const [index, filters] of [...cases.map(([filter]) => filter), ofCustomer].entries()) {
      const { result } = await store.engine.list(organization, { filters, limit: 100 });
      const found = result.purchases.map(({ id }) => id);
      expect(found, Object.keys(filters).join()).toEqual([ids[index]]);
      expect((await statsOf(organization, filters)).purchaseCount).toBe(1n);
    }
  });

  it('finds the purchases without a value of labels, which are those of the group null', async () => {
    const labels = labelDimensions.map(labelOfDimension);
    const values = Object.fromEntries(labels.map((label) => [label, 'a']));
    const all = { ...values, created_at: '2026-01-01T00:00:00Z' };
    const { organization, ids } = await store.shop([
      ...labels.map((label) => ({ ...all, [label]: null })),
      { ...all, currency: null, utm_term: null, customer: 1 },
      // An empty text is a value, and the order's status is another label.
      { ...all, utm_source: '', status: null },
    ]);
    const found = async (filters: PurchaseFilters) => {
      const { result } = await store.engine.list(organization, { filters, limit: 100 });
      expect(await statsOf(organization, filters)).toMatchObject({
        purchaseCount: BigInt(result.purchases.length),
      });
      // Newest first; of one instant, the greatest id.
      return result.purchases.map(({ id }) => id).reverse();
    };
    const both = ids.at(-2);
    for (const [index, dimension] of labelDimensions.entries()) {
      const isInBoth = dimension === 'currency' || dimension === 'utm_term';
      const expected = [ids[index], ...(isInBoth ? [both] : [])];
      expect(await found({ without: [dimension] }), dimension).toEqual(expected);
      if (dimension === 'shipping_status') continue;
      const { groups } = await statsOf(organization, {}, dimension);
      const group = groups.find(({ key }) => key === null);
      expect(group?.purchaseCount, dimension).toBe(BigInt(expected.length));
    }
    expect(await found({ without: ['currency', 'utm_term'] })).toEqual([both]);
    expect(await found({ without: ['currency'], utm_term: ['a'] })).toEqual([ids[2]]);
    expect(await found({ without: ['currency'], currency: ['a'] })).toEqual([]);
    expect(await statsOf(organization, { without: ['currency'] }, 'currency')).toMatchObject({
      customerCount: 2n,
      currency: null,
      mixedCurrencies: false,
      groups: [{ key: null, purchaseCount: 2n }],
    });
  });

  it('rejects with the reason of a signal that is aborted', async () => {
    const { organization } = await store.shop([{}]);
    const reason = new Error('gone');
    const query = { filters: {}, limit: 1 };
    await expect(store.engine.list(organization, query, AbortSignal.abort(reason))).rejects.toBe(
      reason,
    );
  });

  it('visits every matching purchase exactly once, whatever the filter and the page size', async () => {
    const large = await store.add([]);
    const { organization, customers } = large;
    await store.database.pool.query(
      `insert into purchases
         (organization_id, customer_id, purchase_value_in_cents, created_at, utm_source)
       select $1, $2, number % 7,
         case when number % 12 = 0 then timestamptz '2026-01-01Z' + number * interval '1 second'
              else '2026-05-05T05:05:05.050505Z' end,
         case when number % 40 = 0 then 'rare' end
       from generate_series(1, $3) as number
       order by md5(number::text)`,
      [organization, customers[0], hasClickHouse ? 400 : 1500],
    );
    await store.publish(large);
    const queries = fc.oneof(
      fc.record({
        filters: fc.constantFrom<PurchaseFilters>({}, { maxValueInCents: 3n }),
        limit: fc.integer({ min: 40, max: 100 }),
      }),
      fc.record({
        filters: fc.constantFrom<PurchaseFilters>(
          { utm_source: ['rare', 'in none'] },
          { createdUntil: instant('2026-02-01T00:00:00Z') },
          { createdSince: instant('2026-05-05T05:05:05.050506Z') },
        ),
        limit: fc.integer({ min: 1, max: 100 }),
      }),
    );
    await fc.assert(
      fc.asyncProperty(queries, async ({ filters, limit }) => {
        expect(await readAll(organization, filters, limit)).toEqual(
          await expected(organization, filters),
        );
      }),
      {
        numRuns: hasClickHouse ? 3 : 12,
        examples: [[{ filters: { utm_source: ['rare'] }, limit: 1 }]],
      },
    );
  });

  async function readAll(organization: bigint, filters: PurchaseFilters, limit: number) {
    const ids: bigint[] = [];
    for (;;) {
      const last = ids.at(-1);
      const after = last === undefined ? {} : { startingAfter: last };
      const { result } = await store.engine.list(organization, { filters, limit, ...after });
      ids.push(...result.purchases.map(({ id }) => id));
      if (!result.hasMore) return ids;
      expect(result.purchases).toHaveLength(limit);
    }
  }

  /** The expected ids, from plain SQL instead of an engine. */
  async function expected(organization: bigint, filters: PurchaseFilters): Promise<bigint[]> {
    const { rows } = await store.database.pool.query<{ id: bigint }>(
      `select id from purchases
       where organization_id = $1
         and ($2::text[] is null or utm_source = any($2))
         and ($3::bigint is null or purchase_value_in_cents <= $3)
         and ($4::timestamptz is null or created_at <= $4)
         and ($5::timestamptz is null or created_at >= $5)
       order by created_at desc, id desc`,
      [
        organization,
        filters.utm_source ?? null,
        filters.maxValueInCents ?? null,
        filters.createdUntil === undefined ? null : formatInstant(filters.createdUntil),
        filters.createdSince === undefined ? null : formatInstant(filters.createdSince),
      ],
    );
    return rows.map(({ id }) => id);
  }
});

describe('the average ticket', () => {
  it.each([
    [0n, 0n, 0n],
    [10n, 4n, 3n],
    [-10n, 4n, -3n],
    [9n, 4n, 2n],
    [1n, 2n, 1n],
    [-1n, 2n, -1n],
    [-1n, 3n, 0n],
    [3n * 2n ** 62n, 2n, 3n * 2n ** 61n],
  ])(
    'of %s cents in %s purchases is %s, rounded half away from zero',
    (revenue, count, average) => {
      expect(averageTicket(revenue, count)).toBe(average);
    },
  );
});
