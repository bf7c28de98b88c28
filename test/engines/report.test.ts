import { expect } from 'vitest';
import { comparedPeriod } from '../../src/domain/compared-period.ts';
import { formatInstant, parseInstant } from '../../src/domain/instant.ts';
import { TooManyPeriodsError } from '../../src/domain/period.ts';
import type { PurchaseFilters } from '../../src/domain/purchase-query.ts';
import {
  type Comparison,
  cohortIntervals,
  comparisons,
  type PeriodDimension,
  type PurchaseCohortsQuery,
  type PurchaseReportQuery,
  reportMeasures,
  TooManyCohortsError,
} from '../../src/domain/purchase-report.ts';
import { test as it } from '../support/fixtures.ts';
import { addCustomer, addPurchase, type PurchaseValues } from '../support/shop.ts';
import { describeEngines, storeIn } from './store.ts';

const micros = (text: string): bigint => parseInstant(text, 'down') as bigint;

const total: PurchaseReportQuery = {
  filters: {},
  measures: ['purchase_count'],
  groupBy: [],
  orderBy: { by: 'purchase_count', isDescending: true },
  limit: 100,
};

/** Reports and cohorts. `random-questions` compares all of their parameters with plain SQL. */
describeEngines('the engine %s', (name) => {
  const store = storeIn(name);
  let organization: bigint;
  let customers: bigint[];

  const publish = async (valuesOf: (customers: bigint[]) => readonly PurchaseValues[]) => {
    const added = await store.add([]);
    customers = [...added.customers];
    for (let count = customers.length; count < 9; count += 1) {
      customers.push(await addCustomer(store.database.pool, added.organization));
    }
    for (const values of valuesOf(customers)) {
      await addPurchase(store.database.pool, added.organization, values);
    }
    await store.publish(added);
    ({ organization } = added);
  };
  const report = async (query: PurchaseReportQuery) =>
    (await store.engine.report(organization, query)).result;
  const cohortsOf = async (query: PurchaseCohortsQuery) =>
    (await store.engine.cohorts(organization, query)).result;

  const purchasesAt = (...values: readonly (Partial<PurchaseValues> & { customer: number })[]) =>
    publish((customers) =>
      values.map(({ customer, ...others }) => ({
        ...others,
        customer_id: customers[customer] as bigint,
      })),
    );

  it('takes the earliest purchase with the selected payment statuses as the first one, of one instant that with the least id', async () => {
    const [january, february] = ['2026-01-05T00:00:00Z', '2026-02-05T00:00:00Z'];
    await purchasesAt(
      { customer: 0, created_at: february, payment_status: 'paid', utm_source: 'a' },
      { customer: 0, created_at: january, payment_status: 'refunded', utm_source: 'b' },
      { customer: 0, created_at: january, payment_status: 'authorized', utm_source: 'c' },
      { customer: 1, created_at: february, payment_status: 'authorized', utm_source: 'd' },
      { customer: 1, created_at: february, payment_status: 'paid', utm_source: 'e' },
      { customer: 1, created_at: february, payment_status: null, utm_source: 'f' },
    );
    const newSources = async (filters: PurchaseFilters) => {
      const groupBy = ['customer_type', 'utm_source'] as const;
      const orderBy = { by: 'utm_source', isDescending: false } as const;
      const measures = ['new_customer_count', 'returning_customer_count'] as const;
      const found = await report({ ...total, filters, groupBy, orderBy, measures });
      return found.rows.filter(({ keys }) => keys[0] === 'new').map(({ keys }) => keys[1]);
    };
    expect(await newSources({})).toEqual(['b', 'd']);
    expect(await newSources({ paymentStatuses: ['paid'] })).toEqual(['a', 'e']);
    expect(await newSources({ paymentStatuses: ['paid', 'authorized'] })).toEqual(['c', 'd']);
    // No other filter selects first purchases.
    expect(await newSources({ utm_source: ['a'] })).toEqual([]);
    expect(await newSources({ createdSince: micros(february) })).toEqual(['d']);
  });

  it('counts customers with several purchases in a row, in the period and the compared one', async () => {
    await purchasesAt(
      { customer: 0, created_at: '2026-01-05T00:00:00Z', utm_source: 'a' },
      { customer: 0, created_at: '2026-01-06T00:00:00Z', utm_source: 'b' },
      { customer: 0, created_at: '2026-02-05T00:00:00Z', utm_source: 'a' },
      { customer: 0, created_at: '2026-02-06T00:00:00Z', utm_source: 'a' },
      { customer: 0, created_at: '2026-02-07T00:00:00Z', utm_source: 'a' },
      { customer: 1, created_at: '2026-02-05T00:00:00Z', utm_source: 'a' },
      { customer: 1, created_at: '2026-02-06T00:00:00Z', utm_source: 'b' },
      { customer: 2, created_at: '2026-02-06T00:00:00Z', utm_source: 'b' },
      { customer: 2, created_at: '2026-02-07T00:00:00Z', utm_source: 'b' },
    );
    const query: PurchaseReportQuery = {
      ...total,
      filters: {
        createdSince: micros('2026-02-01T00:00:00Z'),
        createdUntil: micros('2026-02-28T23:59:59.999999Z'),
      },
      measures: ['repeat_customer_count'],
      groupBy: ['utm_source'],
      orderBy: { by: 'repeat_customer_count', isDescending: true },
      compareTo: 'previous_month',
    };
    const { totals, rows } = await report(query);
    expect(totals).toEqual({ values: [3n], compared: [1n] });
    expect(rows.map(({ values, compared }) => [values[0], compared?.[0]])).toEqual([
      [1n, 0n],
      [1n, 0n],
    ]);
  });

  it('has the smallest value that half and nine tenths of the purchases do not exceed', async () => {
    const greatest = 2n ** 63n - 1n;
    const most = [1n, 2n, 3n, 4n, 5n, 6n, 7n, 8n, 9n, 10n, 11n];
    const sizes = [1, 2, 3, 9, 10, 11];
    await purchasesAt(
      ...sizes.flatMap((size) =>
        most.slice(0, size).map((value) => ({
          customer: Number(value) % 9,
          // The order of values is not that of time.
          created_at: `2026-02-${String(12 - Number(value)).padStart(2, '0')}T00:00:00Z`,
          utm_source: `of ${size}`,
          purchase_value_in_cents: value,
        })),
      ),
      { customer: 0, created_at: '2026-01-01T00:00:00Z', purchase_value_in_cents: greatest },
      { customer: 0, created_at: '2026-01-01T00:00:00Z', purchase_value_in_cents: -greatest },
    );
    const measures = ['median_value_in_cents', 'p90_value_in_cents'] as const;
    const orderBy = { by: 'median_value_in_cents', isDescending: false } as const;
    const query: PurchaseReportQuery = { ...total, measures, orderBy };
    const { rows } = await report({ ...query, groupBy: ['utm_source'] });
    expect(rows.map(({ keys, values }) => [keys[0], ...values])).toEqual([
      [null, -greatest, greatest],
      ['of 1', 1n, 1n],
      ['of 2', 1n, 2n],
      ['of 3', 2n, 3n],
      ['of 10', 5n, 9n],
      ['of 9', 5n, 9n],
      ['of 11', 6n, 10n],
    ]);
    const none = await report({ ...query, filters: { platforms: ['bling'] } });
    expect(none.totals.values).toEqual([0n, 0n]);
  });

  it('has a purchase in the row of each of its coupons, and counts it once in totals', async () => {
    const codes = (...all: readonly (string | number | undefined)[]) =>
      JSON.stringify(all.map((code) => ({ id: '1', code, value: 10, type: 'percentage' })));
    const at = (day: number) => `2026-02-${String(day).padStart(2, '0')}T12:00:00Z`;
    await purchasesAt(
      { customer: 0, created_at: '2026-01-05T12:00:00Z', coupons: codes('VIP') },
      { customer: 0, created_at: at(1), coupons: codes('VIP', 'FREE'), utm_source: 'a' },
      { customer: 0, created_at: at(2), coupons: codes('FREE', 'VIP', 'FREE') },
      { customer: 1, created_at: at(3), coupons: codes('FREE'), purchase_value_in_cents: 7n },
      { customer: 1, created_at: at(4), coupons: codes('free', 7), payment_status: 'paid' },
      { customer: 2, created_at: at(5), coupons: codes('', undefined), payment_status: 'paid' },
      { customer: 2, created_at: at(6), coupons: codes(undefined) },
      { customer: 3, created_at: at(7), coupons: '[]', utm_source: 'a' },
      { customer: 3, created_at: at(8), coupons: null },
    );
    const measures = [...reportMeasures];
    const { rows, totals } = await report({ ...total, measures, groupBy: ['coupon'] });
    expect(rows.map(({ keys, values }) => [keys[0], ...values.slice(0, 2)])).toEqual([
      ['FREE', 3n, 207n],
      ['VIP', 3n, 300n],
      [null, 3n, 300n],
      ['', 1n, 100n],
      ['7', 1n, 100n],
      ['free', 1n, 100n],
    ]);
    expect(totals.values.slice(0, 4)).toEqual([9n, 807n, 90n, 4n]);
  });

  it('matches periods by their place, and has rows of purchases in the compared period alone', async () => {
    await purchasesAt(
      { customer: 0, created_at: '2026-01-31T12:00:00Z', purchase_value_in_cents: 7n },
      { customer: 1, created_at: '2026-02-01T00:00:00Z', purchase_value_in_cents: 10n },
      { customer: 1, created_at: '2026-02-28T00:00:00Z', purchase_value_in_cents: 20n },
      { customer: 0, created_at: '2026-01-01T23:00:00Z', purchase_value_in_cents: 40n },
    );
    const query: PurchaseReportQuery = {
      ...total,
      filters: {
        createdSince: micros('2026-02-01T00:00:00Z'),
        createdUntil: micros('2026-02-28T23:59:59.999999Z'),
      },
      measures: ['revenue_in_cents'],
      groupBy: ['day'],
      orderBy: { by: 'day', isDescending: false },
      compareTo: 'previous_period',
    };
    const rowsOf = async (query: PurchaseReportQuery) =>
      (await report(query)).rows.map(({ values, compared }) => [values[0], compared?.[0]]);
    const days = await rowsOf(query);
    expect(days).toHaveLength(28);
    expect([days[0], days[27]]).toEqual([
      [10n, 0n],
      [20n, 7n],
    ]);
    expect((await rowsOf({ ...query, compareTo: 'previous_month' }))[0]).toEqual([10n, 40n]);
    const byCustomer = { by: 'customer', isDescending: false } as const;
    expect(await rowsOf({ ...query, groupBy: ['customer'], orderBy: byCustomer })).toEqual([
      [0n, 7n],
      [30n, 0n],
    ]);
    expect(
      await rowsOf({ ...query, limit: 2, orderBy: { by: 'day', isDescending: true } }),
    ).toEqual([
      [20n, 7n],
      [0n, 0n],
    ]);
  });

  it('matches a period with that of its own local date or hour a month or a year before', async () => {
    const days = ['2024-02-26', '2024-02-28', '2024-02-29', '2024-03-01', '2024-03-31'];
    await purchasesAt(
      ...[...days, '2025-02-26', '2025-03-01', '2025-03-30'].flatMap((day, index) => [
        { customer: 0, created_at: `${day}T12:30:00Z`, purchase_value_in_cents: BigInt(index) },
        { customer: index, created_at: `${day}T14:00:00Z`, purchase_value_in_cents: 10n },
      ]),
    );
    const reportOf = async (
      compareTo: Comparison,
      period: PeriodDimension,
      [since, until]: readonly [string, string],
      timeZone?: string,
    ) => {
      const filters = { createdSince: micros(since), createdUntil: micros(until) };
      const orderBy = { by: period, isDescending: false } as const;
      const shape = { measures: ['revenue_in_cents'], groupBy: [period], orderBy } as const;
      const query = { ...total, ...shape, filters, limit: 1000, compareTo, timeZone };
      const { rows } = await report(query);
      return rows.map(({ keys, values, compared }) => [
        formatInstant(keys[0] as bigint).slice(5, 16),
        values[0],
        compared?.[0],
      ]);
    };
    const acrossLeapDay = ['2025-02-26T00:00:00Z', '2025-03-02T23:59:59Z'] as const;
    expect(await reportOf('previous_year', 'day', acrossLeapDay)).toEqual([
      ['02-29T00:00', 0n, 12n],
      ['02-26T00:00', 15n, 10n],
      ['02-27T00:00', 0n, 0n],
      ['02-28T00:00', 0n, 11n],
      ['03-01T00:00', 16n, 13n],
      ['03-02T00:00', 0n, 0n],
    ]);
    // Berlin's clocks go forward within both periods, on different days.
    const march = ['2025-03-01T00:00:00+01:00', '2025-03-31T23:59:59+02:00'] as const;
    const hours = await reportOf('previous_year', 'hour', march, 'Europe/Berlin');
    expect(hours.filter(([, value, compared]) => value !== 0n || compared !== 0n)).toEqual([
      ['03-01T12:00', 6n, 3n],
      ['03-01T14:00', 10n, 10n],
      ['03-30T12:00', 7n, 0n],
      ['03-30T14:00', 10n, 0n],
      ['03-31T12:00', 0n, 4n],
      ['03-31T14:00', 0n, 10n],
    ]);
    // The compared time has 29 March as well, which no day of February is compared with.
    const twoMonths = ['2024-02-01T00:00:00Z', '2024-03-31T23:59:59Z'] as const;
    const inTwoMonths = await reportOf('previous_month', 'day', twoMonths);
    expect(inTwoMonths.slice(-6)).toEqual([
      ['03-26T00:00', 0n, 10n],
      ['03-27T00:00', 0n, 0n],
      ['03-28T00:00', 0n, 11n],
      ['03-29T00:00', 0n, 12n],
      ['03-30T00:00', 0n, 0n],
      ['03-31T00:00', 14n, 0n],
    ]);
    const aWeek = ['2025-02-24T00:00:00Z', '2025-03-02T23:59:59Z'] as const;
    expect(await reportOf('previous_year_weekdays', 'day', aWeek)).toEqual([
      ['02-24T00:00', 0n, 10n],
      ['02-25T00:00', 0n, 0n],
      ['02-26T00:00', 15n, 11n],
      ['02-27T00:00', 0n, 12n],
      ['02-28T00:00', 0n, 13n],
      ['03-01T00:00', 16n, 0n],
      ['03-02T00:00', 0n, 0n],
    ]);
  });

  const ago = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString();

  it('ends cohorts and compared periods at the instant of the data', async () => {
    const days = [800, 400, 100, 70, 40, 20, 0.01, -3, -100];
    await purchasesAt(...days.map((each, index) => ({ customer: index, created_at: ago(each) })));
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
    const since = micros(ago(45));
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

  it('has the currency of the purchases that cohorts count alone', async () => {
    const created_at = '2026-01-05T00:00:00Z';
    await purchasesAt(
      { customer: 0, created_at, utm_source: 'none', currency: null },
      { customer: 1, created_at, utm_source: 'one', currency: null },
      { customer: 1, created_at, utm_source: 'none', currency: 'BRL' },
    );
    const query = { filters: {}, interval: 'month', periods: 1 } as const;
    const currencyOf = async (filters: PurchaseFilters) =>
      (await cohortsOf({ ...query, filters })).currency;
    expect(await currencyOf({})).toBe('BRL');
    expect(await currencyOf({ utm_source: ['one'] })).toBe('BRL');
    expect(await currencyOf({ utm_source: ['none'] })).toBeNull();
    expect(await currencyOf({ utm_source: ['other'] })).toBeNull();
  });

  it('has no rows without purchases, or between inverted bounds', async () => {
    const inverted = {
      createdSince: micros('2026-03-31T00:00:00Z'),
      createdUntil: micros('2026-03-30T12:00:00Z'),
    };
    for (const values of [[], [{ customer: 0, created_at: '2026-02-28T06:00:00Z' }]]) {
      await purchasesAt(...values);
      for (const groupBy of [[], ['day'], ['day', 'status'], ['status']] as const) {
        const orderBy = { by: groupBy[0] ?? 'purchase_count', isDescending: false } as const;
        const query = { ...total, measures: reportMeasures, groupBy, orderBy, filters: inverted };
        for (const compareTo of [undefined, ...comparisons]) {
          const { rows, totals } = await report({ ...query, compareTo });
          if (compareTo === undefined) expect(rows).toEqual([]);
          expect(new Set(totals.values)).toEqual(new Set([0n]));
        }
        if (values.length > 0) continue;
        expect((await report({ ...query, filters: {} })).rows).toEqual([]);
      }
      const cohorts = { filters: inverted, interval: 'month', periods: 12 } as const;
      expect((await cohortsOf(cohorts)).cohorts).toEqual([]);
    }
  });

  it('rejects more than 1,000 periods and more than 120 cohorts', async () => {
    const day = 86_400_000;
    const at = (days: number) => new Date(Date.UTC(2020, 0, 6) + days * day).toISOString();
    await publish((customers) => [
      { customer_id: customers[0] as bigint, created_at: at(0) },
      { customer_id: customers[1] as bigint, created_at: at(1000) },
    ]);
    const query = {
      ...total,
      groupBy: ['day'],
      orderBy: { by: 'day', isDescending: false },
    } as const;
    const error = await store.engine.report(organization, query).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(TooManyPeriodsError);
    expect(error).toMatchObject({ count: 1001 });
    const filters = { createdSince: micros(at(1)) };
    const { rows } = await report({ ...query, filters, limit: 1000 });
    expect(rows).toHaveLength(1000);
    const added = await store.add([]);
    for (let week = 0; week <= 120; week += 1) {
      const customer_id = await addCustomer(store.database.pool, added.organization);
      const values = { customer_id, created_at: at(7 * week) };
      await addPurchase(store.database.pool, added.organization, values);
    }
    await store.publish(added);
    const weeks = { filters: {}, interval: 'week', periods: 60 } as const;
    await expect(store.engine.cohorts(added.organization, weeks)).rejects.toBeInstanceOf(
      TooManyCohortsError,
    );
    const later = { ...weeks, filters: { createdSince: micros(at(7)) } };
    const { result } = await store.engine.cohorts(added.organization, later);
    expect(result.cohorts).toHaveLength(120);
  });
});
