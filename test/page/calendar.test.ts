import { describe, expect, it } from 'vitest';
import { periodKeyAt, periodsBetween } from '../../src/domain/period.ts';
import { parseExactly } from '../../src/page/browser/api/exact-json.ts';
import { addDays, endOfDay, startOfDay } from '../../src/page/browser/view/calendar.ts';
import { centsOf } from '../../src/page/browser/view/filters.ts';
import { boundsOf, daysBefore, daysOf } from '../../src/page/browser/view/period.ts';

describe('a day of the page', () => {
  it.each([
    ['UTC', '2026-02-25'],
    ['Asia/Kolkata', '2026-02-25'],
    // Clocks skip midnight.
    ['America/Sao_Paulo', '2018-11-01'],
    // Clocks repeat the hour before midnight.
    ['America/Sao_Paulo', '2018-02-14'],
    ['Europe/Berlin', '2026-03-26'],
    ['Europe/Berlin', '2026-10-22'],
    ['Australia/Lord_Howe', '2026-04-02'],
  ])('begins and ends as in a time series, in %s from %s', async (timeZone, first) => {
    const calendar = { interval: 'day', timeZone } as const;
    for (let day = first; day < addDays(first, 8); day = addDays(day, 1)) {
      const noon = BigInt(startOfDay(day, timeZone).getTime() + 43_200_000) * 1000n;
      const key = await periodKeyAt(calendar, noon);
      const [period, next] = await periodsBetween(calendar, key, key + 1);
      expect(BigInt(startOfDay(day, timeZone).getTime()) * 1000n, day).toBe(period?.startsAt);
      const end = BigInt(Date.parse(`${endOfDay(day, timeZone).slice(0, 23)}Z`)) * 1000n + 999n;
      expect(end + 1n, day).toBe(next?.startsAt);
    }
  });
});

describe('a period of the page', () => {
  const now = Date.parse('2026-03-01T02:00:00Z');
  const daysIn = (period: Parameters<typeof daysOf>[0]['period'], from = '', to = '') =>
    daysOf({ period, from, to, timezone: 'America/Sao_Paulo' }, now);

  it('ends with the present day of the time zone', () => {
    expect(daysIn('last7')).toEqual({ from: '2026-02-22', to: '2026-02-28' });
    expect(daysIn('month')).toEqual({ from: '2026-02-01', to: '2026-02-28' });
    expect(daysIn('year')).toEqual({ from: '2026-01-01', to: '2026-02-28' });
    expect(daysIn('custom', '2026-02-03')).toEqual({ from: '2026-02-03', to: '2026-02-28' });
    expect(daysIn('all')).toBeNull();
    expect(boundsOf(null, 'UTC')).toEqual({});
  });

  it('follows as many days, without a gap', () => {
    expect(daysBefore({ from: '2026-03-01', to: '2026-03-31' })).toEqual({
      from: '2026-01-29',
      to: '2026-02-28',
    });
  });
});

it('reads integers that a double would round as text, and nothing else', () => {
  const json = '{"a":9007199254740993,"b":-12,"c":"9007199254740993","d":[1.5e3],"e\\"1":"\\\\"}';
  expect(parseExactly(json)).toEqual({
    a: '9007199254740993',
    b: -12,
    c: '9007199254740993',
    d: [1500],
    'e"1': '\\',
  });
});

it('reads amounts exactly, and refuses what is none', () => {
  expect(['12', '12.3', '12,34', ' 0.05 ', '90071992547409.93'].map(centsOf)).toEqual([
    '1200',
    '1230',
    '1234',
    '5',
    '9007199254740993',
  ]);
  expect(['', '-1', '1.234', '1.000,00', 'ten'].map(centsOf)).toEqual([
    null,
    null,
    null,
    null,
    null,
  ]);
});
