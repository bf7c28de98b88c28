import { expect } from 'vitest';
import { formatInstant, parseInstant } from '../../src/domain/instant.ts';
import { TooManyPeriodsError } from '../../src/domain/period.ts';
import type { PurchaseTimeSeries } from '../../src/domain/purchase-engine.ts';
import type { PurchaseFilters, PurchaseTimeSeriesQuery } from '../../src/domain/purchase-query.ts';
import { readPurchaseTimeSeries } from '../../src/domain/purchase-stats.ts';
import { test as it } from '../support/fixtures.ts';
import { describeEngines, storeIn } from './store.ts';

const instant = (text: string): bigint => parseInstant(text, 'down') as bigint;

/** The contract of every engine, over the same rows. */
describeEngines('a time series of the engine %s', (name) => {
  const store = storeIn(name);

  const seriesOf = async (organization: bigint, query: Partial<PurchaseTimeSeriesQuery>) => {
    const defaults = { filters: {}, interval: 'day', groupLimit: 10 } as const;
    return (await readPurchaseTimeSeries(store.engine, organization, { ...defaults, ...query }))
      .result;
  };
  /** Each series as periods such as `2026-03-01T00:00:00Z: 2 of 1 for 30`. */
  const shown = ({ series }: PurchaseTimeSeries) =>
    series.map(({ key, periods }) => ({
      key,
      periods: periods.map(
        ({ startsAt, purchaseCount, customerCount, revenueInCents }) =>
          `${formatInstant(startsAt).replace('.000000', '')}: ${purchaseCount} of ${customerCount} for ${revenueInCents}`,
      ),
    }));

  it('begins and ends with the periods that its bounds cut', async () => {
    const { organization } = await store.shop([
      { created_at: '2026-03-04T10:00:00Z', purchase_value_in_cents: 1 },
      { created_at: '2026-03-16T10:00:00Z', purchase_value_in_cents: 2 },
    ]);
    const filters = {
      createdSince: instant('2026-03-04T11:00:00Z'),
      createdUntil: instant('2026-03-16T10:00:00Z'),
    };
    // Weeks begin on Monday.
    expect(shown(await seriesOf(organization, { filters, interval: 'week' }))[0]?.periods).toEqual([
      '2026-03-02T00:00:00Z: 0 of 0 for 0',
      '2026-03-09T00:00:00Z: 0 of 0 for 0',
      '2026-03-16T00:00:00Z: 1 of 1 for 2',
    ]);
    const months = {
      createdSince: instant('2025-12-31T00:00:00Z'),
      createdUntil: filters.createdSince,
    };
    const byMonth = { filters: months, interval: 'month', timeZone: 'America/Sao_Paulo' } as const;
    expect(shown(await seriesOf(organization, byMonth))[0]?.periods).toEqual([
      '2025-12-01T03:00:00Z: 0 of 0 for 0',
      '2026-01-01T03:00:00Z: 0 of 0 for 0',
      '2026-02-01T03:00:00Z: 0 of 0 for 0',
      '2026-03-01T03:00:00Z: 1 of 1 for 1',
    ]);
  });

  it('has zeros between two bounds, and no period without a bound, if no purchase matches', async () => {
    const { organization } = await store.shop([]);
    const createdSince = instant('2026-03-01T22:00:00Z');
    const createdUntil = instant('2026-03-01T23:00:00Z');
    const periodsOf = async (filters: PurchaseFilters) =>
      shown(await seriesOf(organization, { filters, interval: 'hour' }));
    expect(await periodsOf({ createdSince, createdUntil })).toEqual([
      {
        key: null,
        periods: ['2026-03-01T22:00:00Z: 0 of 0 for 0', '2026-03-01T23:00:00Z: 0 of 0 for 0'],
      },
    ]);
    for (const filters of [
      {},
      { createdSince },
      { createdUntil },
      { createdSince: createdUntil, createdUntil: createdSince },
    ]) {
      expect(await periodsOf(filters)).toEqual([{ key: null, periods: [] }]);
    }
  });

  it('shows the hour that clocks repeat as two, and no hour that they skip', async () => {
    const { organization } = await store.shop([
      { created_at: '2026-03-08T06:59:59Z', purchase_value_in_cents: 1 },
      { created_at: '2026-03-08T07:00:00Z', purchase_value_in_cents: 2 },
      { created_at: '2026-11-01T05:30:00Z', purchase_value_in_cents: 4 },
      { created_at: '2026-11-01T06:30:00Z', purchase_value_in_cents: 8 },
    ]);
    const hours = async (from: string, to: string) => {
      const filters = { createdSince: instant(from), createdUntil: instant(to) };
      const query = { filters, interval: 'hour', timeZone: 'America/New_York' } as const;
      return shown(await seriesOf(organization, query))[0]?.periods;
    };
    expect(await hours('2026-03-08T06:00:00Z', '2026-03-08T07:00:00Z')).toEqual([
      '2026-03-08T06:00:00Z: 1 of 1 for 1',
      '2026-03-08T07:00:00Z: 1 of 1 for 2',
    ]);
    expect(await hours('2026-11-01T05:00:00Z', '2026-11-01T06:59:59Z')).toEqual([
      '2026-11-01T05:00:00Z: 1 of 1 for 4',
      '2026-11-01T06:00:00Z: 1 of 1 for 8',
    ]);
  });

  it('has every purchase of a day that clocks repeat a part of', async () => {
    // Clocks go back from 00:01 to 23:01 of the day before, at 02:31 UTC.
    const { organization } = await store.shop([
      { created_at: '2010-11-07T02:30:30Z', purchase_value_in_cents: 1 },
      { created_at: '2010-11-07T02:45:00Z', purchase_value_in_cents: 2 },
      { created_at: '2010-11-07T04:00:00Z', purchase_value_in_cents: 4 },
    ]);
    const createdSince = instant('2010-11-07T00:00:00-02:30');
    const createdUntil = instant('2010-11-08T00:00:00Z');
    for (const filters of [
      { createdSince, createdUntil },
      { createdSince },
      { createdUntil },
      {},
    ]) {
      const series = await seriesOf(organization, { filters, timeZone: 'America/St_Johns' });
      expect(shown(series)[0]?.periods).toEqual([
        '2010-11-06T02:30:00Z: 1 of 1 for 2',
        '2010-11-07T02:30:00Z: 2 of 1 for 5',
      ]);
    }
  });

  it.for([
    { first: '2026-02-28T12:00:00Z', last: '2026-03-01T12:00:00Z', interval: 'hour' },
    { first: '2026-01-01T12:00:00Z', last: '2026-03-01T12:00:00Z', interval: 'day' },
    { first: '2024-01-01T12:00:00Z', last: '2026-03-01T12:00:00Z', interval: 'week' },
    { first: '2005-01-01T12:00:00Z', last: '2026-03-01T12:00:00Z', interval: 'month' },
    { first: '1955-01-01T12:00:00Z', last: '2026-03-01T12:00:00Z', interval: 'quarter' },
    { first: '1850-01-01T12:00:00Z', last: '2026-03-01T12:00:00Z', interval: 'year' },
  ])('chooses the interval $interval from $first', async ({ first, last, interval }) => {
    const { organization } = await store.shop([{ created_at: first }, { created_at: last }]);
    const bounds = { createdSince: instant(first), createdUntil: instant(last) };
    for (const filters of [{}, bounds, { createdSince: bounds.createdSince }]) {
      const series = await seriesOf(organization, { filters, interval: 'auto' });
      expect(series.interval).toBe(interval);
      expect(series.series[0]?.periods.length).toBeLessThanOrEqual(300);
    }
  });

  it('refuses more than ten thousand periods, with groups more than a thousand', async () => {
    const { organization } = await store.shop([{ created_at: '2026-03-01T12:00:00Z' }]);
    const limits = [
      { since: instant('2023-06-06T00:00:00Z'), max: 1_000, groupBy: 'platform' },
      { since: instant('1998-10-15T00:00:00Z'), max: 10_000, groupBy: undefined },
    ] as const;
    for (const { since, max, groupBy } of limits) {
      const days = (createdSince: bigint) =>
        seriesOf(organization, { filters: { createdSince }, groupBy });
      expect((await days(since)).series[0]?.periods).toHaveLength(max);
      await expect(days(since - 1n)).rejects.toThrow(new TooManyPeriodsError(max + 1, max));
    }
  });

  it('refuses more than a thousand periods from its first purchase on', async () => {
    const { organization } = await store.shop([
      { created_at: '2023-06-05T12:00:00Z' },
      { created_at: '2026-03-01T12:00:00Z' },
    ]);
    const days = (filters: PurchaseFilters) =>
      seriesOf(organization, { filters, groupBy: 'platform' });
    const createdUntil = instant('2026-03-01T23:00:00Z');
    for (const filters of [{}, { createdUntil }]) {
      await expect(days(filters)).rejects.toThrow(new TooManyPeriodsError(1_001, 1_000));
    }
    const lastDay = 86_400_000_000n;
    const { series } = await days({ createdUntil: createdUntil - lastDay });
    expect(series[0]?.periods).toHaveLength(1_000);
  });
});
