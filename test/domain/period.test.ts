import { describe, expect, it } from 'vitest';
import { formatInstant, parseInstant } from '../../src/domain/instant.ts';
import {
  type Interval,
  intervals,
  periodKeyAt,
  periodsBetween,
  periodsOfKeys,
  requireFewPeriods,
  TooManyPeriodsError,
  weekStarts,
} from '../../src/domain/period.ts';
import { localDayReader } from '../support/local-day.ts';

const instant = (text: string) => parseInstant(text, 'down') as bigint;
const hour = 3_600_000_000n;

/** The starts of the periods from that of one instant to that of another. */
async function periods(interval: Interval, from: string, to: string, timeZone?: string) {
  const calendar = { interval, ...(timeZone === undefined ? {} : { timeZone }) };
  const [first, last] = [
    await periodKeyAt(calendar, instant(from)),
    await periodKeyAt(calendar, instant(to)),
  ];
  return (await periodsBetween(calendar, first, last)).map(({ startsAt }) => startsAt);
}

describe('the periods of a time series', () => {
  it.each([
    'America/Sao_Paulo',
    'America/Havana',
    'America/St_Johns',
    'Asia/Kathmandu',
    'Asia/Gaza',
    'Australia/Lord_Howe',
    'Pacific/Apia',
    'Africa/Casablanca',
  ])('are days that begin when the date of %s changes', async (zone) => {
    const dayOf = localDayReader(zone);
    const [from, to] = ['2010-06-01T00:00:00Z', '2012-12-31T00:00:00Z'];
    const starts = await periods('day', from, to, zone);
    const days = starts.map(dayOf);
    expect(new Set(days).size).toBe(days.length);
    for (const start of starts) expect(dayOf(start - 1n) < dayOf(start)).toBe(true);
    // Days that the calendar of the zone skips are no periods.
    const expected = new Set<string>();
    for (let at = instant(from); at <= instant(to); at += 6n * hour) expected.add(dayOf(at));
    expect(days).toEqual([...expected]);
  });

  it.each([
    [
      'week',
      '2026-01-01T00:00:00Z',
      '2026-01-12T00:00:00Z',
      ['2025-12-29', '2026-01-05', '2026-01-12'],
    ],
    [
      'month',
      '2023-12-31T23:59:59Z',
      '2024-02-29T00:00:00Z',
      ['2023-12-01', '2024-01-01', '2024-02-01'],
    ],
    ['week', '0001-01-01T00:00:00Z', '0001-01-08T00:00:00Z', ['0001-01-01', '0001-01-08']],
    ['month', '9999-11-30T00:00:00Z', '9999-12-31T23:59:59Z', ['9999-11-01', '9999-12-01']],
  ] as const)('are each %s from %s to %s', async (interval, from, to, expected) => {
    const starts = (await periods(interval, from, to)).map(formatInstant);
    expect(starts).toEqual(expected.map((day) => `${day}T00:00:00.000000Z`));
  });

  it.each([
    ['monday', '2025-12-29', '2026-01-05'],
    ['sunday', '2025-12-28', '2026-01-04'],
    ['saturday', '2025-12-27', '2026-01-03', '2026-01-10'],
  ] as const)('are weeks that begin on %s', async (weekStart, ...expected) => {
    for (const [timeZone, time] of [
      [undefined, '00:00:00'],
      ['America/Sao_Paulo', '03:00:00'],
    ] as const) {
      const calendar = { interval: 'week', timeZone, weekStart } as const;
      const first = await periodKeyAt(calendar, instant(`2026-01-01T${time}Z`));
      const last = await periodKeyAt(calendar, instant(`2026-01-10T${time}Z`));
      const starts = await periodsBetween(calendar, first, last);
      expect(starts.map(({ startsAt }) => formatInstant(startsAt))).toEqual(
        expected.map((day) => `${day}T${time}.000000Z`),
      );
    }
  });

  it('are hours of 60 minutes, except if the clocks change by half an hour', async () => {
    const lengths = async (zone: string, from: string, to: string) => {
      const starts = await periods('hour', from, to, zone);
      const minutes = starts
        .slice(1)
        .map((at, index) => (at - (starts[index] ?? 0n)) / (hour / 60n));
      return [...new Set(minutes)].sort();
    };
    const april = ['2026-03-01T00:00:00Z', '2026-04-06T00:00:00Z'] as const;
    const october = ['2026-10-01T00:00:00Z', '2026-11-05T00:00:00Z'] as const;
    for (const zone of ['America/New_York', 'Asia/Kolkata']) {
      for (const [from, to] of [april, october]) {
        expect(await lengths(zone, from, to)).toEqual([60n]);
      }
    }
    expect(await lengths('Australia/Lord_Howe', ...april)).toEqual([30n, 60n]);
    expect(await lengths('Australia/Lord_Howe', ...october)).toEqual([60n, 90n]);
  });

  it.each(intervals)('are those of single keys thousands of years apart: %s', async (interval) => {
    const calendar = { interval, timeZone: 'Europe/Berlin' };
    const texts = ['9999-06-01T00:00:00Z', '0001-06-01T00:00:00Z', '2025-06-01T00:00:00Z'];
    const keys = await Promise.all(texts.map((text) => periodKeyAt(calendar, instant(text))));
    const alone = await Promise.all(keys.map((key) => periodsBetween(calendar, key, key)));
    expect(await periodsOfKeys(calendar, keys)).toEqual(alone.flat());
    expect(alone.flat()).toHaveLength(3);
  });

  it('begin no week before the year 1', async () => {
    for (const weekStart of weekStarts) {
      const calendar = { interval: 'week', weekStart } as const;
      const [first] = await periodsBetween(calendar, 0, 1);
      expect(first).toEqual({ key: 0, startsAt: instant('0001-01-01T00:00:00Z') });
    }
  });

  it('are at most as many as allowed', () => {
    expect(() => requireFewPeriods(700_000, 700_999, 1_000)).not.toThrow();
    expect(() => requireFewPeriods(700_000, 701_000, 1_000)).toThrow(TooManyPeriodsError);
  });
});
