import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  earliestInstant,
  formatInstant,
  latestInstant,
  parseInstant,
} from '../../src/domain/instant.ts';

describe('an instant', () => {
  it('is parsed from its formatted text, to the microsecond', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: earliestInstant, max: latestInstant }), (instant) => {
        const text = formatInstant(instant);
        expect(text).toMatch(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$/);
        expect(parseInstant(text, 'down')).toBe(instant);
      }),
    );
  });

  it.each([
    ['2026-01-31T10:00:00Z', '2026-01-31T10:00:00.000000Z'],
    ['2026-01-31T10:00Z', '2026-01-31T10:00:00.000000Z'],
    ['2026-01-31T10:00:00', '2026-01-31T10:00:00.000000Z'],
    ['2026-01-31T10:00:00-03:00', '2026-01-31T13:00:00.000000Z'],
    ['2026-01-31T10:00:00 03:00', '2026-01-31T07:00:00.000000Z'],
    ['2026-01-31T10:00:00+0530', '2026-01-31T04:30:00.000000Z'],
    ['2026-01-31T10:00:00+03', '2026-01-31T07:00:00.000000Z'],
    ['2026-01-31T10:00:00,5Z', '2026-01-31T10:00:00.500000Z'],
    ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000000Z'],
  ])('reads %s', (text, expected) => {
    expect(formatInstant(parseInstant(text, 'up') as bigint)).toBe(expected);
  });

  it('rounds digits beyond the microsecond into the range they bound', () => {
    const text = '2026-01-31T10:00:00.0000005Z';
    expect((parseInstant(text, 'up') as bigint) - (parseInstant(text, 'down') as bigint)).toBe(1n);
    expect(parseInstant('2026-01-31T10:00:00.000001000Z', 'up')).toBe(
      parseInstant('2026-01-31T10:00:00.000001Z', 'down'),
    );
  });
});
