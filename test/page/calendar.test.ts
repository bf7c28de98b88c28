import { describe, expect, it } from 'vitest';
import { periodKeyAt, periodsBetween } from '../../src/domain/period.ts';
import { parseExactly } from '../../src/page/browser/api/exact-json.ts';
import { formatInterval, formatSpan, formatTicks } from '../../src/page/browser/display/format.ts';
import { partsOf } from '../../src/page/browser/statistics/chart-line.ts';
import { addDays, endOfDay, startOfDay } from '../../src/page/browser/view/calendar.ts';
import { amountOf } from '../../src/page/browser/view/filters.ts';
import { intervalAt } from '../../src/page/browser/view/interval.ts';
import {
  boundsOf,
  currentSpan,
  daysOf,
  type PeriodName,
  previousSpan,
} from '../../src/page/browser/view/period.ts';

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

  const comparedWith = (period: PeriodName, at: string, timezone: string, from = '', to = '') => {
    const span = previousSpan({ period, from, to, timezone }, Date.parse(at));
    return span && formatSpan(span, timezone);
  };

  it.each([
    ['last7', '2026-03-01T02:00:00Z', 'America/Sao_Paulo', 'Feb 15 – 21, 2026, until 11:00 PM'],
    ['month', '2026-11-26T15:00:00Z', 'UTC', 'Oct 1 – 26, 2026, until 3:00 PM'],
    // The month before is shorter.
    ['month', '2026-03-31T15:00:00Z', 'UTC', 'Feb 1 – 28, 2026'],
    ['year', '2026-03-01T15:00:00Z', 'UTC', 'Jan 1 – Mar 1, 2025, until 3:00 PM'],
    ['year', '2028-02-29T15:00:00Z', 'UTC', 'Jan 1 – Feb 28, 2027'],
    ['all', '2026-03-01T15:00:00Z', 'UTC', null],
  ] as const)(
    '%s at %s in %s is compared with as much of the one before',
    (period, at, zone, is) => {
      expect(comparedWith(period, at, zone)?.replaceAll('\u2009', ' ') ?? null).toBe(is);
    },
  );

  it.each([
    ['2026-03-01', '2026-03-31', 'Jan 29 – Feb 28, 2026'],
    ['2026-05-01', '2026-05-04', 'Apr 27 – 28, 2026, until 6:00 AM'],
    ['2026-05-02', '2026-05-02', 'May 1, 2026, until 6:00 AM'],
    // It has not begun.
    ['2026-06-01', '2026-06-30', 'May 2 – 31, 2026'],
  ])('from %s to %s is compared with as many days before', (from, to, is) => {
    const text = comparedWith('custom', '2026-05-02T06:00:00Z', 'UTC', from, to);
    expect(text?.replaceAll('\u2009', ' ')).toBe(is);
  });

  it('is requested up to the same instant of the period before', () => {
    const selection = { period: 'month', from: '', to: '', timezone: 'America/Sao_Paulo' } as const;
    const span = previousSpan(selection, Date.parse('2026-11-26T15:00:00Z'));
    expect(span && boundsOf(span.days, 'America/Sao_Paulo', span.end)).toEqual({
      created_since: '2026-10-01T03:00:00.000Z',
      created_until: '2026-10-26T14:59:59.999999Z',
    });
  });
});

describe('the chart', () => {
  const at = Date.parse('2026-11-26T15:00:00Z');
  const name = (interval: string, start: string, period: PeriodName = 'year') => {
    const timezone = 'UTC';
    const span = currentSpan({ period, from: '', to: '', timezone }, at);
    const shown = intervalAt(start, { interval, timezone }, span, at);
    return formatInterval(shown, interval, timezone).replaceAll('\u2009', ' ');
  };

  it('names periods by the days that they have', () => {
    expect(name('month', '2026-10-01T00:00:00Z')).toBe('Oct 2026');
    expect(name('month', '2026-11-01T00:00:00Z')).toBe('Nov 1 – 26, 2026, until 3:00 PM');
    expect(name('week', '2025-12-29T00:00:00Z')).toBe('Jan 1 – 4, 2026');
    expect(name('week', '2026-11-23T00:00:00Z')).toBe('Nov 23 – 26, 2026, until 3:00 PM');
    expect(name('day', '2026-11-25T00:00:00Z')).toBe('Nov 25, 2026');
    expect(name('day', '2026-11-26T00:00:00Z', 'all')).toBe('Nov 26, 2026, until 3:00 PM');
    expect(name('hour', '2026-11-26T14:00:00Z')).toBe('Nov 26, 2:00 PM');
  });

  it('has the year, or the day, on an axis of several', () => {
    const ticks = (interval: string, ...starts: string[]) =>
      formatTicks(starts.map(Date.parse), interval, 'UTC');
    const [day, next] = ['2025-12-31T12:00:00Z', '2026-01-01T12:00:00Z'] as const;
    expect(ticks('day', day, next)).toEqual(['Dec 31, 2025', 'Jan 1, 2026']);
    expect(ticks('day', next)).toEqual(['Jan 1']);
    expect(ticks('month', next)).toEqual(['Jan 2026']);
    expect(ticks('hour', day, next)).toEqual(['Dec 31, 12 PM', 'Jan 1, 12 PM']);
    expect(ticks('hour', next)).toEqual(['12:00 PM']);
  });

  it('dashes the line to an unfinished period', () => {
    const values = [1, null, 3, 4];
    expect(partsOf({ values, isUnfinished: true })).toEqual([
      [1, null, 3, null],
      [null, null, 3, 4],
    ]);
    expect(partsOf({ values, isUnfinished: false })).toEqual([values, [null, null, null, null]]);
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
  const read = (currency: string | null, ...texts: readonly string[]) =>
    texts.map((text) => amountOf(text, currency));
  expect(read('BRL', '12', '12.3', '12,34', ' 0.05 ', '90071992547409.93')).toEqual([
    '1200',
    '1230',
    '1234',
    '5',
    '9007199254740993',
  ]);
  const refused = [null, null, null, null, null];
  expect(read(null, '', '-1', '1.234', '1.000,00', 'ten')).toEqual(refused);
  expect(read('KWD', '12', '12,3', '1.234')).toEqual(['12000', '12300', '1234']);
  expect(read('JPY', '1000', ' 5 ')).toEqual(['1000', '5']);
  expect(read('JPY', '', '1,000', '1.0', '1.', 'ten')).toEqual(refused);
});
