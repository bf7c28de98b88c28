import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { comparedPeriod, localDays } from '../../src/domain/compared-period.ts';
import { earliestInstant, formatInstant, parseInstant } from '../../src/domain/instant.ts';
import { type Comparison, comparisons } from '../../src/domain/purchase-report.ts';
import { cellsOf } from '../support/table.ts';

/** Microseconds since 1970. */
const micros = (text: string): bigint => parseInstant(text, 'down') as bigint;
const shown = (instant: bigint): string => formatInstant(instant).replace('.000000Z', 'Z');

async function compared(
  comparison: Comparison,
  zone: string,
  [since, until]: readonly [string, string],
): Promise<[string, string]> {
  const bounds = { since: micros(since), until: micros(until) };
  const found = await comparedPeriod(bounds, comparison, zone === 'UTC' ? undefined : zone);
  return [shown(found.since), shown(found.until)];
}

type Case = readonly [zone: string, period: [string, string], expected: [string, string]];

/** Rows of a time zone, the bounds of a period, and those of the compared one, all in UTC. */
const casesOf = (table: string): Case[] =>
  cellsOf(table).map(([zone = '', ...periods]) => {
    const boundsOf = (of = '') => of.split(' ').map((bound) => `${bound}Z`) as [string, string];
    return [zone, boundsOf(periods[0]), boundsOf(periods[1])];
  });

const last = '.999999Z';

describe('previous_period', () => {
  const days = casesOf(`
    UTC | 2026-11-01T00:00:00 2026-11-20T14:05:00 | 2026-10-12T00:00:00 2026-10-31T14:05:00
    # A single instant is a part of one day.
    UTC | 2026-11-01T00:00:00 2026-11-01T00:00:00 | 2026-10-31T00:00:00 2026-10-31T00:00:00
    UTC | 2024-03-01T00:00:00 2024-03-01T23:59:59.999999 | 2024-02-29T00:00:00 2024-02-29T23:59:59.999999
    # The first instant of the next day is a part of it.
    UTC | 2026-11-01T00:00:00 2026-11-08T00:00:00 | 2026-10-24T00:00:00 2026-10-31T00:00:00
    # Clocks go back within the compared period, and forward within it.
    Europe/Berlin | 2026-10-31T23:00:00 2026-11-20T13:05:00 | 2026-10-11T22:00:00 2026-10-31T13:05:00
    Europe/Berlin | 2026-03-31T22:00:00 2026-04-07T21:59:59.999999 | 2026-03-24T23:00:00 2026-03-31T21:59:59.999999
    # Clocks change within the period, in both directions.
    Europe/Berlin | 2026-10-24T22:00:00 2026-10-25T22:59:59.999999 | 2026-10-23T22:00:00 2026-10-24T21:59:59.999999
    Europe/Berlin | 2026-03-28T23:00:00 2026-03-29T21:59:59.999999 | 2026-03-27T23:00:00 2026-03-28T22:59:59.999999
    # 02:30 of the day before does not exist: the last instant before it.
    Europe/Berlin | 2026-03-29T22:00:00 2026-03-30T00:30:00 | 2026-03-28T23:00:00 2026-03-29T00:59:59.999999
    # 02:30 of the day before is there twice: the later one.
    Europe/Berlin | 2026-10-25T23:00:00 2026-10-26T01:30:00 | 2026-10-24T22:00:00 2026-10-25T01:30:00
    # 4 November 2018 begins at 01:00, and is compared as a whole day.
    America/Sao_Paulo | 2018-11-04T03:00:00 2018-11-05T01:59:59.999999 | 2018-11-03T03:00:00 2018-11-04T02:59:59.999999
    America/Sao_Paulo | 2018-11-05T02:00:00 2018-11-06T01:59:59.999999 | 2018-11-04T03:00:00 2018-11-05T01:59:59.999999
    # 00:30 of 4 November does not exist: the last instant of the day before.
    America/Sao_Paulo | 2018-11-05T02:00:00 2018-11-05T02:30:00 | 2018-11-04T03:00:00 2018-11-04T02:59:59.999999
    # 17 February 2018 has 25 hours, because 23:00 is there twice.
    America/Sao_Paulo | 2018-02-18T03:00:00 2018-02-19T02:59:59.999999 | 2018-02-17T02:00:00 2018-02-18T02:59:59.999999
    America/Sao_Paulo | 2018-02-17T02:00:00 2018-02-18T02:59:59.999999 | 2018-02-16T02:00:00 2018-02-17T01:59:59.999999
    Asia/Kathmandu | 2026-01-07T18:15:00 2026-01-14T18:14:59.999999 | 2025-12-31T18:15:00 2026-01-07T18:14:59.999999
    # Clocks change by half an hour.
    Australia/Lord_Howe | 2026-04-05T13:30:00 2026-04-06T13:29:59.999999 | 2026-04-04T13:00:00 2026-04-05T13:29:59.999999
    # Local time of 1900 has seconds, and a period of it is compared with days of the same zone.
    America/Sao_Paulo | 1900-01-01T03:06:28 1901-01-01T03:06:27.999999 | 1899-01-01T03:06:28 1900-01-01T03:06:27.999999
    America/Sao_Paulo | 1905-01-01T03:06:28 1906-01-01T03:06:27.999999 | 1904-01-02T03:06:28 1905-01-01T03:06:27.999999
    # Days of years before 1900 are those of UTC.
    Asia/Kathmandu | 1850-01-02T00:00:00 1850-01-02T23:59:59.999999 | 1850-01-01T00:00:00 1850-01-01T23:59:59.999999`);
  it.each(days)('of whole days in %s, %j, is %j', async (zone, period, expected) => {
    expect(await compared('previous_period', zone, period)).toEqual(expected);
  });

  const lengths = casesOf(`
    UTC | 2026-11-01T06:00:00 2026-11-01T17:59:59.999999 | 2026-10-31T18:00:00 2026-11-01T05:59:59.999999
    UTC | 2026-11-01T00:00:00.000001 2026-11-01T00:00:00.000001 | 2026-11-01T00:00:00 2026-11-01T00:00:00
    # A midnight of UTC is none of this zone.
    Asia/Kolkata | 2026-11-02T00:00:00 2026-11-02T23:59:59.999999 | 2026-11-01T00:00:00 2026-11-01T23:59:59.999999
    # A length is absolute, whatever clocks show.
    Europe/Berlin | 2026-03-29T10:00:00 2026-03-30T09:59:59.999999 | 2026-03-28T10:00:00 2026-03-29T09:59:59.999999
    # 23:00 for the second time is no midnight.
    America/Sao_Paulo | 2018-02-18T02:00:00 2018-02-18T02:59:59.999999 | 2018-02-18T01:00:00 2018-02-18T01:59:59.999999
    # Clocks go back from 00:01 to 23:01 of the day before, which is no midnight.
    America/St_Johns | 2010-11-07T02:31:00 2010-11-07T02:40:59.999999 | 2010-11-07T02:21:00 2010-11-07T02:30:59.999999`);
  it.each(lengths)('of a part of a day in %s, %j, is %j', async (zone, period, expected) => {
    expect(await compared('previous_period', zone, period)).toEqual(expected);
  });
});

describe('previous_month', () => {
  const cases = casesOf(`
    UTC | 2026-11-01T00:00:00 2026-11-20T14:05:00.123456 | 2026-10-01T00:00:00 2026-10-20T14:05:00.123456
    UTC | 2026-03-01T00:00:00 2026-03-31T23:59:59.999999 | 2026-02-01T00:00:00 2026-02-28T23:59:59.999999
    UTC | 2024-03-30T12:00:00 2024-03-31T12:00:00 | 2024-02-29T12:00:00 2024-02-29T12:00:00
    UTC | 2026-01-15T06:30:00 2026-01-31T06:30:00 | 2025-12-15T06:30:00 2025-12-31T06:30:00
    UTC | 2026-02-01T00:00:00 2026-02-28T23:59:59.999999 | 2026-01-01T00:00:00 2026-01-28T23:59:59.999999
    Europe/Berlin | 2026-03-31T22:00:00 2026-04-30T21:59:59.999999 | 2026-02-28T23:00:00 2026-03-30T21:59:59.999999
    America/Sao_Paulo | 2018-12-04T02:00:00 2018-12-04T12:00:00 | 2018-11-04T03:00:00 2018-11-04T12:00:00
    # 4 November begins at 01:00; 4 October at midnight.
    America/Sao_Paulo | 2018-11-04T03:00:00 2018-11-04T12:00:00 | 2018-10-04T03:00:00 2018-10-04T13:00:00
    Asia/Kathmandu | 2026-03-30T18:15:00 2026-03-31T18:14:59.999999 | 2026-02-27T18:15:00 2026-02-28T18:14:59.999999`);
  it.each(cases)('in %s, of %j, is %j', async (zone, period, expected) => {
    expect(await compared('previous_month', zone, period)).toEqual(expected);
  });
});

describe('previous_year', () => {
  const cases = casesOf(`
    UTC | 2024-02-29T00:00:00 2024-02-29T23:59:59.999999 | 2023-02-28T00:00:00 2023-02-28T23:59:59.999999
    UTC | 2025-02-01T00:00:00 2025-02-28T23:59:59.999999 | 2024-02-01T00:00:00 2024-02-28T23:59:59.999999
    # The same day and time has another offset a year earlier.
    Europe/Berlin | 2026-03-28T23:00:00 2026-03-29T10:00:00 | 2025-03-28T23:00:00 2025-03-29T11:00:00
    America/Sao_Paulo | 2019-11-04T03:00:00 2019-11-04T12:00:00 | 2018-11-04T03:00:00 2018-11-04T11:00:00
    # Local time is UTC until 1900 begins, so 1 January 1900 begins at 09:00.
    Asia/Tokyo | 1900-12-31T15:00:00 1901-01-01T03:00:00 | 1900-01-01T00:00:00 1900-01-01T03:00:00`);
  it.each(cases)('in %s, of %j, is %j', async (zone, period, expected) => {
    expect(await compared('previous_year', zone, period)).toEqual(expected);
  });
});

describe('previous_year_weekdays', () => {
  const cases = casesOf(`
    # From a Monday up to a Wednesday.
    UTC | 2025-02-24T00:00:00 2025-03-05T14:05:00 | 2024-02-26T00:00:00 2024-03-06T14:05:00
    # Clocks go forward on another day.
    Europe/Berlin | 2026-03-28T23:00:00 2026-03-30T10:00:00 | 2025-03-29T23:00:00 2025-03-31T10:00:00
    # 4 November 2018 begins at 01:00.
    America/Sao_Paulo | 2019-11-03T03:00:00 2019-11-03T12:00:00 | 2018-11-04T03:00:00 2018-11-04T11:00:00
    UTC | 2026-01-01T06:30:00 2026-01-02T06:30:00 | 2025-01-02T06:30:00 2025-01-03T06:30:00`);
  it.each(cases)('in %s, of %j, is %j', async (zone, period, expected) => {
    expect(await compared('previous_year_weekdays', zone, period)).toEqual(expected);
  });
});

it.each(comparisons)('no bound is before the earliest instant: %s', async (comparison) => {
  for (const zone of [undefined, 'Asia/Tokyo', 'America/Sao_Paulo']) {
    const bounds = { since: earliestInstant, until: earliestInstant + 5n };
    const found = await comparedPeriod(bounds, comparison, zone);
    expect(found).toEqual({ since: earliestInstant, until: earliestInstant });
  }
});

it.each(comparisons)('inverted bounds stay inverted: %s', async (comparison) => {
  for (const [since, until] of [
    ['2024-02-29T00:00:00Z', '2024-02-28T23:59:59.999999Z'],
    ['2026-03-31T00:00:00Z', '2026-03-30T12:00:00Z'],
    ['2026-03-30T06:00:00Z', '2026-03-29T12:00:00Z'],
  ] as const) {
    const [comparedSince, comparedUntil] = await compared(comparison, 'UTC', [since, until]);
    expect(micros(comparedSince)).toBeGreaterThan(micros(comparedUntil));
  }
});

/** The local date of an instant, from Intl. */
const dateIn = (zone: string) => {
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone: zone, dateStyle: 'short' });
  return (instant: bigint) => format.format(Number(instant / 1000n));
};
const minute = 60_000_000n;

/** The first instant of a date, found by bisection over what Intl shows. */
function beginningOf(date: string, dateAt: (instant: bigint) => string): bigint {
  let [low, high] = [micros(`${date}T00:00:00Z`) - 900n * minute, micros(`${date}T00:00:00Z`)];
  high += 900n * minute;
  while (high - low > minute) {
    const middle = low + ((high - low) / minute / 2n) * minute;
    if (dateAt(middle) < date) low = middle;
    else high = middle;
  }
  return high;
}

const dayAfter = (date: string, days: number): string =>
  new Date(Date.parse(`${date}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10);

it('a previous period of whole local days has as many local days, and touches', async () => {
  const zones = ['Europe/Berlin', 'America/Sao_Paulo', 'Asia/Kathmandu', 'Australia/Lord_Howe'];
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...zones, 'Africa/Cairo', 'America/Havana'),
      fc.integer({ min: Date.UTC(1975, 0) / 86_400_000, max: Date.UTC(2040, 0) / 86_400_000 }),
      fc.integer({ min: 1, max: 400 }),
      async (zone, dayNumber, count) => {
        const dateAt = dateIn(zone);
        const date = new Date(dayNumber * 86_400_000).toISOString().slice(0, 10);
        const since = beginningOf(date, dateAt);
        const until = beginningOf(dayAfter(date, count), dateAt) - 1n;
        const found = await comparedPeriod({ since, until }, 'previous_period', zone);
        expect(found).toEqual({
          since: beginningOf(dayAfter(date, -count), dateAt),
          until: since - 1n,
        });
      },
    ),
    { numRuns: 300 },
  );
});

it('a previous period of any other length touches, and has the same length', async () => {
  const bound = fc.bigInt({
    min: micros('1900-01-03T00:00:00Z'),
    max: micros('2099-12-30T00:00:00Z'),
  });
  const length = fc.bigInt({ min: 0n, max: 400n * 1440n * minute });
  await fc.assert(
    fc.asyncProperty(bound, length, async (since, length) => {
      fc.pre(since % (15n * minute) !== 0n);
      const found = await comparedPeriod(
        { since, until: since + length },
        'previous_period',
        'America/Sao_Paulo',
      );
      expect(found).toEqual({ since: since - length - 1n, until: since - 1n });
    }),
  );
});

describe('the number of local days', () => {
  const daysOf = (zone: string, since: string, until: string) =>
    localDays({ since: micros(since), until: micros(until) }, zone === 'UTC' ? undefined : zone);

  it('is the local time between the bounds, rounded up', async () => {
    for (const [zone, since, until, days] of [
      ['UTC', '2026-02-01T00:00:00Z', `2026-02-28T23:59:59${last}`, 28],
      ['UTC', '2026-11-01T00:00:00Z', '2026-11-20T14:05:00Z', 20],
      // The first instant of the next day is a part of it.
      ['UTC', '2026-11-01T00:00:00Z', '2026-11-08T00:00:00Z', 8],
      ['UTC', '2026-11-01T22:00:00Z', '2026-11-02T01:00:00Z', 1],
      ['UTC', '2026-11-01T00:00:00Z', '2026-11-01T00:00:00Z', 1],
      ['UTC', '2026-11-02T00:00:00Z', '2026-11-01T00:00:00Z', 0],
      // A day of 23 hours, and one of 25.
      ['Europe/Berlin', '2026-03-28T23:00:00Z', `2026-03-29T21:59:59${last}`, 1],
      ['Europe/Berlin', '2026-10-24T22:00:00Z', `2026-10-25T22:59:59${last}`, 1],
      // Clocks go back.
      ['Europe/Berlin', '2026-10-25T00:50:00Z', '2026-10-25T01:10:00Z', 1],
    ] as const) {
      expect(await daysOf(zone, since, until), `${since} ${until}`).toBe(days);
    }
  });
});
