import { describe, expect, it } from 'vitest';
import { periodKeyAt, periodsBetween } from '../../src/domain/period.ts';
import { parseExactly } from '../../src/page/browser/api/exact-json.ts';
import {
  formatInterval,
  formatMoney,
  formatSpan,
  formatTicks,
} from '../../src/page/browser/display/format.ts';
import { partsOf } from '../../src/page/browser/statistics/chart-line.ts';
import { averageRetention, retentionOf } from '../../src/page/browser/statistics/retention.ts';
import { addDays, endOfDay, startOfDay } from '../../src/page/browser/view/calendar.ts';
import { amountOf } from '../../src/page/browser/view/filters.ts';
import { comparedStarts, intervalAt, startsOf } from '../../src/page/browser/view/interval.ts';
import {
  boundsOf,
  currentSpan,
  daysOf,
  type PeriodName,
  spanOf,
} from '../../src/page/browser/view/period.ts';
import { requestsOf } from '../../src/page/browser/view/requests.ts';
import { hashOf, readLink } from '../../src/page/browser/view/view-state.ts';

const readState = (hash: string) => readLink(hash).state;

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

  it('of a report ends after its last microsecond', () => {
    const bounds = { since: '2026-10-01T03:00:00.000000Z', until: '2026-10-26T14:59:59.999999Z' };
    const span = spanOf(bounds, 'America/Sao_Paulo');
    expect(span && formatSpan(span, 'America/Sao_Paulo').replaceAll('\u2009', ' ')).toBe(
      'Oct 1 – 26, 2026, until 12:00 PM',
    );
    expect(spanOf({ since: null, until: null }, 'UTC')).toBeNull();
  });

  it.each([
    ['hour', '2018-02-17', '2018-02-18'],
    ['day', '2018-10-31', '2018-11-08'],
    ['week', '2026-02-18', '2026-03-05'],
    ['month', '2025-12-31', '2026-03-01'],
  ] as const)('has every %s from %s to %s', async (interval, from, to) => {
    const timezone = 'America/Sao_Paulo';
    const calendar = { interval, timeZone: timezone, weekStart: 'sunday' } as const;
    const end = startOfDay(addDays(to, 1), timezone).getTime();
    const keyAt = (instant: number) => periodKeyAt(calendar, BigInt(instant) * 1000n);
    const first = await keyAt(startOfDay(from, timezone).getTime());
    const expected = await periodsBetween(calendar, first, await keyAt(end - 1));
    expect(
      startsOf({ days: { from, to }, end }, { interval, timezone }).map(
        (start) => BigInt(Date.parse(start)) * 1000n,
      ),
    ).toEqual(expected.map(({ startsAt }) => startsAt));
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
    expect(name('year', '2025-01-01T00:00:00Z', 'all')).toBe('2025');
    expect(name('year', '2026-01-01T00:00:00Z')).toBe('Jan 1 – Nov 26, 2026, until 3:00 PM');
    expect(name('week', '2025-12-28T00:00:00Z')).toBe('Jan 1 – 3, 2026');
    expect(name('week', '2026-11-22T00:00:00Z')).toBe('Nov 22 – 26, 2026, until 3:00 PM');
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
    expect(ticks('year', next)).toEqual(['2026']);
    expect(ticks('hour', day, next)).toEqual(['Dec 31, 12 PM', 'Jan 1, 12 PM']);
    expect(ticks('hour', next)).toEqual(['12:00 PM']);
  });

  it('has a line of whole periods, and points of those of which a part is missing', () => {
    const values = [1, null, 3, 4];
    expect(partsOf(values, [true, false, false, true])).toEqual([
      [null, null, 3, null],
      [1, null, null, 4],
    ]);
    expect(
      partsOf(
        values,
        values.map(() => false),
      ),
    ).toEqual([values, [null, null, null, null]]);
  });
});

describe('a cohort', () => {
  const cohort = (...counts: readonly number[]) => ({
    cohort: '2026-01-01T00:00:00Z',
    customer_count: counts[0] ?? 0,
    periods: counts.map((customer_count, index) => ({
      customer_count,
      is_complete: index < counts.length - 1,
    })),
  });

  it('has the share of its customers in each later period', () => {
    expect(retentionOf(cohort(200, 50, 10))).toEqual([
      { share: 0.25, customerCount: 50, isComplete: true },
      { share: 0.05, customerCount: 10, isComplete: false },
    ]);
  });

  it('counts for the average only in periods that are over', () => {
    const cohorts = [cohort(200, 50, 30, 1), cohort(100, 10, 5), cohort(50, 50)];
    expect(averageRetention(cohorts, 0)).toBe(60 / 300);
    expect(averageRetention(cohorts, 1)).toBe(30 / 200);
    expect(averageRetention(cohorts, 2)).toBeNull();
  });
});

describe('the state in the URL', () => {
  it.each([
    ['period=custom&from=2026-02-30&to=2026-03-05', 'from', /2026-02-30/],
    ['period=custom&from=2026-03-05&to=2026-03-01', 'from', /must not end before/],
    ['period=fortnight', 'period', /period=fortnight/],
    ['timezone=Mars', 'timezone', /timezone=Mars/],
    ['group_by=color', 'group_by', /group_by=color/],
    ['interval=hour&period=custom&from=1990-01-01&to=2026-01-01', 'interval', /longer interval/],
  ])('says what is wrong in a link: %s', (hash, param, message) => {
    const { state, problems } = readLink(`#${hash}`);
    expect(problems).toEqual([expect.objectContaining({ param })]);
    expect(problems[0]?.message).toMatch(message);
    expect(readLink(hashOf(state)).problems).toEqual([]);
  });

  it('counts paid purchases unless it says otherwise', () => {
    expect(readState('').filters).toEqual({ status: ['paid'] });
    expect(readState('#status=all').filters).toEqual({});
    expect(readState('#status=refunded&platform=bling').filters).toEqual({
      status: ['refunded'],
      platform: ['bling'],
    });
    expect(hashOf(readState('#status=all'))).toContain('status=all');
    expect(readState(hashOf(readState('#status=all'))).filters).toEqual({});
  });

  it('compares a month with the month before, unless it says otherwise', () => {
    expect(readState('#period=month').compare_to).toBe('previous_month');
    expect(readState('#period=year').compare_to).toBe('previous_year');
    expect(readState('#period=last7').compare_to).toBe('previous_period');
    expect(readState('#period=month&compare_to=none').compare_to).toBe('none');
  });

  it('has two different dimensions', () => {
    expect(readState('#group_by=platform&then_by=platform').then_by).toBe('none');
    expect(readState('#group_by=platform&then_by=utm_source').then_by).toBe('utm_source');
  });
});

it('requests a present period without an end, so that equal times are compared', () => {
  const at = Date.parse('2026-11-26T15:00:00Z');
  const of = (hash: string) =>
    requestsOf(readState(hash), { at, hasSeveralCurrencies: false, purchaseCount: 10 });
  const present = of('#period=month&timezone=UTC');
  const query = 'timezone=UTC&compare_to=previous_month&created_since=2026-11-01T00%3A00%3A00.000Z';
  expect(present.totals).toBe(`/v1/purchases/report?${query}&status=paid`);
  expect(present.purchases).toContain('created_until=2026-11-26T23%3A59%3A59.999999Z');
  const past = of('#period=custom&from=2026-10-01&to=2026-10-31&timezone=UTC&status=all');
  expect(past.totals).toContain('created_until=2026-10-31T23%3A59%3A59.999999Z');
  expect(past.totals).not.toContain('status');
  expect(of('#period=all&timezone=UTC').totals).not.toContain('compare_to');
});

describe('a period of the chart', () => {
  const startsIn = (
    from: string,
    to: string,
    interval: string,
    timezone: string,
    step: number | null,
  ) => {
    const spanOfDays = (from: string, to: string) => ({
      days: { from, to },
      end: startOfDay(addDays(to, 1), timezone).getTime(),
    });
    const calendar = { interval, timezone };
    const starts = startsOf(spanOfDays(from, to), calendar);
    const aYearBefore = (day: string) => `${Number(day.slice(0, 4)) - 1}${day.slice(4)}`;
    const compared = comparedStarts(
      starts,
      spanOfDays(aYearBefore(from), aYearBefore(to)),
      calendar,
      step,
    );
    return starts.map((start, index) => [start.slice(5, 16), compared[index]?.slice(0, 16)]);
  };

  it('is compared with that of its own local date or hour, or with that at its place', () => {
    expect(startsIn('2025-02-28', '2025-03-01', 'day', 'UTC', 12)).toEqual([
      ['02-28T00:00', '2024-02-28T00:00'],
      ['03-01T00:00', '2024-03-01T00:00'],
    ]);
    expect(startsIn('2024-02-28', '2024-03-01', 'day', 'UTC', 12)).toEqual([
      ['02-28T00:00', '2023-02-28T00:00'],
      ['02-29T00:00', undefined],
      ['03-01T00:00', '2023-03-01T00:00'],
    ]);
    // Clocks skip an hour of 30 March 2025.
    const hours = startsIn('2025-03-30', '2025-03-30', 'hour', 'Europe/Berlin', 12);
    expect(hours.slice(1, 3)).toEqual([
      ['03-30T00:00', '2024-03-30T00:00'],
      ['03-30T01:00', '2024-03-30T02:00'],
    ]);
    expect(startsIn('2025-02-28', '2025-03-01', 'day', 'UTC', null)[1]).toEqual([
      '03-01T00:00',
      '2024-02-29T00:00',
    ]);
  });

  it('is no week if local dates of another month or year are compared', () => {
    const at = Date.parse('2026-11-26T15:00:00Z');
    const seriesOf = (hash: string) =>
      requestsOf(readState(`#timezone=UTC&${hash}`), {
        ...{ at, hasSeveralCurrencies: false, purchaseCount: 10 },
      }).series;
    expect(seriesOf('period=year')).toMatch(/group_by=month.*compare_to=previous_year&/);
    expect(seriesOf('period=last30&interval=week&compare_to=previous_month')).toContain('=day&');
    expect(seriesOf('period=year&compare_to=previous_year_weekdays')).toContain('group_by=week');
    expect(seriesOf('period=year&compare_to=none')).toContain('group_by=week');
  });
});

it.each([
  ['week', '2026-09-06'],
  ['month', '2025-12-01'],
  ['quarter', '2024-01-01'],
])('requests twelve whole cohorts by %s, the last of which goes on', (interval, first) => {
  const at = Date.parse('2026-11-26T15:00:00Z');
  const state = readState(`#period=last7&timezone=UTC&cohort_interval=${interval}`);
  const { cohorts } = requestsOf(state, { at, hasSeveralCurrencies: false, purchaseCount: 10 });
  expect(cohorts).toContain(`created_since=${first}T00%3A00%3A00.000Z`);
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

it.each([
  ['BRL', 123_456],
  ['BRL', 123_456_789_01],
  ['JPY', 1_000],
  ['KWD', 1_234_567],
  ['EUR', 10_000],
])('reads an amount as the page writes it: %s %i', (currency, amount) => {
  expect(amountOf(formatMoney(amount, currency), currency)).toBe(String(amount));
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
  expect(read('BRL', '€ 1', 'R$', '1,23,4', '1,2345', 'R$ R$ 1')).toEqual(refused);
  expect(read('KWD', '12', '12,3', '1.234')).toEqual(['12000', '12300', '1234']);
  expect(read('JPY', '1000', ' 5 ')).toEqual(['1000', '5']);
  expect(read('JPY', '', '1.000', '1.0', '1.', 'ten')).toEqual(refused);
});
