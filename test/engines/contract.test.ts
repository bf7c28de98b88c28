import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { comparedPeriod } from '../../src/domain/compared-period.ts';
import { formatInstant, parseInstant } from '../../src/domain/instant.ts';
import { averageTicket } from '../../src/domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../src/domain/purchase-query.ts';
import {
  cohortIntervals,
  comparisons,
  type PurchaseCohortsQuery,
  type PurchaseReportQuery,
  reportMeasures,
} from '../../src/domain/purchase-report.ts';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import { test as it } from '../support/fixtures.ts';
import { describeEngines, hasClickHouse, storeIn } from './store.ts';

const instant = (text: string): bigint => parseInstant(text, 'down') as bigint;

const total: PurchaseReportQuery = {
  filters: {},
  measures: ['purchase_count'],
  groupBy: [],
  orderBy: { by: 'purchase_count', isDescending: true },
  limit: 100,
};

/** The contract of every engine. `random-questions` compares all parameters of queries with plain SQL. */
describeEngines('the engine %s', (name) => {
  const store = storeIn(name);

  it('counts purchases and distinct customers and adds their values to the cent', async () => {
    const { organization } = await store.shop([
      { purchase_value_in_cents: 2n ** 62n },
      { purchase_value_in_cents: 2n ** 62n },
      { purchase_value_in_cents: 2n ** 62n, customer: 1 },
      { purchase_value_in_cents: -1 },
    ]);
    const query = { filters: {}, groupLimit: 10 };
    expect((await readPurchaseStats(store.engine, organization, query)).result).toMatchObject({
      purchaseCount: 4n,
      customerCount: 2n,
      revenueInCents: 3n * 2n ** 62n - 1n,
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

  it('has a purchase in the row of each of its coupons, and counts it once in totals', async () => {
    const codes = (...all: readonly (string | number | undefined)[]) =>
      JSON.stringify(all.map((code) => ({ id: '1', code, value: 10, type: 'percentage' })));
    const at = (day: number) => `2026-02-${String(day).padStart(2, '0')}T12:00:00Z`;
    const { organization } = await store.shop([
      { customer: 0, created_at: '2026-01-05T12:00:00Z', coupons: codes('VIP') },
      { customer: 0, created_at: at(1), coupons: codes('VIP', 'FREE'), utm_source: 'a' },
      { customer: 0, created_at: at(2), coupons: codes('FREE', 'VIP', 'FREE') },
      { customer: 1, created_at: at(3), coupons: codes('FREE'), purchase_value_in_cents: 7n },
      { customer: 1, created_at: at(4), coupons: codes('free', 7, 7.5), payment_status: 'paid' },
      { customer: 2, created_at: at(5), coupons: codes('', undefined), payment_status: 'paid' },
      { customer: 2, created_at: at(6), coupons: codes(undefined) },
      { customer: 3, created_at: at(7), coupons: '[]', utm_source: 'a' },
      { customer: 3, created_at: at(8), coupons: null },
      // What is no code of a coupon, and more bytes than are read.
      {
        customer: 3,
        created_at: at(9),
        coupons:
          '[7, "FREE", null, ["FREE"], [{"code":"FREE"}], {"code":{"code":"FREE"}}, {"code":true}, {"code":12.0}]',
      },
      { customer: 3, created_at: at(10), coupons: codes('y'.repeat(4083)) },
    ]);
    const query = { ...total, measures: reportMeasures, groupBy: ['coupon'] } as const;
    const { rows, totals } = (await store.engine.report(organization, query)).result;
    expect(rows.map(({ keys, values }) => [keys[0], ...values.slice(0, 2)])).toEqual([
      [null, 5n, 500n],
      ['FREE', 3n, 207n],
      ['VIP', 3n, 300n],
      ['', 1n, 100n],
      ['7', 1n, 100n],
      ['free', 1n, 100n],
    ]);
    expect(totals.values.slice(0, 4)).toEqual([11n, 1007n, 92n, 4n]);
  });

  const ago = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString();

  it('ends cohorts and compared periods at the instant of the data', async () => {
    const days = [800, 400, 100, 70, 40, 20, 0.01, -3, -100];
    const { organization } = await store.shop(
      days.map((each, customer) => ({ customer, created_at: ago(each) })),
    );
    const cohortsOf = async (query: PurchaseCohortsQuery) =>
      (await store.engine.cohorts(organization, query)).result;
    for (const interval of cohortIntervals) {
      const query = { filters: {}, interval, timeZone: 'America/Sao_Paulo' };
      const { cohorts } = await cohortsOf({ ...query, periods: 60 });
      const complete = cohorts.map(({ periods }) => periods.map(({ isComplete }) => isComplete));
      expect(complete[2]?.length).toBeGreaterThan(1);
      expect(complete[2]?.slice(0, -1)).not.toContain(false);
      expect(complete[2]?.at(-1)).toBe(false);
      // Of purchases that are not made yet.
      expect(complete.at(-1)).toEqual([false]);
      const [oldest] = (await cohortsOf({ ...query, periods: 2 })).cohorts;
      expect(oldest?.periods).toMatchObject([{ isComplete: true }, { isComplete: true }]);
    }
    const since = instant(ago(45));
    for (const compareTo of comparisons) {
      for (const groupBy of [[], ['day'], ['week'], ['month', 'utm_source']] as const) {
        const orderBy = { by: groupBy[0] ?? 'purchase_count', isDescending: false } as const;
        const query = { ...total, filters: { createdSince: since }, groupBy, orderBy, compareTo };
        const { result, asOf } = await store.engine.report(organization, query);
        const period = { since, until: asOf };
        expect(result.period).toEqual(period);
        expect(result.comparedPeriod).toEqual(await comparedPeriod(period, compareTo, undefined));
        expect(result.totals.values).toEqual([3n]);
      }
    }
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
