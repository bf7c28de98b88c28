import fc from 'fast-check';
import { earliestInstant, latestInstant, parseInstant } from '../../../src/domain/instant.ts';

/** Instants of a shop are near a few origins, so that purchases, bounds and periods meet. */
export type Moment = {
  /** Counts the origins of the shop. */
  readonly origin: number;
  /** Quarters of an hour after the origin. */
  readonly quarters: number;
  /** Microseconds after that. */
  readonly micros: number;
};

export const origins = [
  // A month of UTC, with a leap day, and the next year.
  '2024-02-29T00:00:00Z',
  '2025-01-01T00:00:00Z',
  '2025-03-01T03:00:00Z',
  // Changes of clocks: Berlin, São Paulo (at midnight), Havana (midnight is twice), St John's (a minute past it).
  '2025-03-30T01:00:00Z',
  '2025-10-26T01:00:00Z',
  '2018-11-04T03:00:00Z',
  '2018-02-18T02:00:00Z',
  '2024-11-03T05:00:00Z',
  '2010-11-07T02:30:00Z',
  // Local mean time of São Paulo.
  '1905-06-15T12:00:00Z',
  '1969-12-31T23:45:00Z',
  '2026-08-31T23:00:00Z',
] as const;

/** The first and the last instants. */
export const outermostOrigins = ['0001-01-01T00:00:00Z', '9999-12-31T23:45:00Z'] as const;

export const zones = [
  'UTC',
  'America/Sao_Paulo',
  'Europe/Berlin',
  'Pacific/Chatham',
  'America/Havana',
  'America/St_Johns',
] as const;

const quarter = 15n * 60n * 1_000_000n;

const micros = fc.oneof(
  { weight: 3, arbitrary: fc.constant(0) },
  { weight: 2, arbitrary: fc.constantFrom(-1, 1, 2, 59_999_999) },
  { weight: 1, arbitrary: fc.nat({ max: 899_999_999 }) },
);

export const moment: fc.Arbitrary<Moment> = fc.record({
  origin: fc.nat({ max: 2 }),
  quarters: fc.oneof(
    { weight: 4, arbitrary: fc.integer({ min: -8, max: 8 }) },
    { weight: 3, arbitrary: fc.integer({ min: -40, max: 40 }).map((days) => 96 * days) },
    { weight: 1, arbitrary: fc.integer({ min: -30_000, max: 30_000 }) },
  ),
  micros,
});

/** At the instant of one of many purchases, or near it. */
export const momentOfPurchase: fc.Arbitrary<Moment> = fc.record({
  origin: fc.nat({ max: 10_000 }),
  quarters: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.constantFrom(-1, 1, 96)),
  micros,
});

/** The microseconds since 1970 of a moment, within the years that the API has. */
export function instantOf(
  { origin, quarters, micros }: Moment,
  chosen: readonly string[],
  afterQuarters = 0,
): bigint {
  const text = chosen[origin % chosen.length] as string;
  const base = parseInstant(text, 'down') as bigint;
  return withinYears(base + BigInt(quarters + afterQuarters) * quarter + BigInt(micros));
}

export function withinYears(instant: bigint): bigint {
  if (instant < earliestInstant) return earliestInstant;
  return instant > latestInstant ? latestInstant : instant;
}
