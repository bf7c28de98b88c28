import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalTimeZone, zonedYears, zoneOffsets } from '../../src/domain/time-zone.ts';
import { localDayReader } from '../support/local-day.ts';

const microseconds = (text: string) => BigInt(Date.parse(text)) * 1000n;
const hours = (...offsets: number[]) => offsets.map((offset) => BigInt(offset * 3600) * 1_000_000n);

describe('the name of a time zone', () => {
  it.each([
    ['UTC', 'UTC'],
    ['Etc/UTC', 'UTC'],
    ['America/Sao_Paulo', 'America/Sao_Paulo'],
    ['america/sao_paulo', 'America/Sao_Paulo'],
    ['Brazil/East', 'America/Sao_Paulo'],
    ['Etc/GMT+3', 'Etc/GMT+3'],
  ])('%s is %s', (name, canonical) => {
    expect(canonicalTimeZone(name)).toBe(canonical);
  });

  it.each(['', 'Mars/Phobos', '+03:00', '-3', 'America', 'UTC+3', ' UTC', 'America/Sao_Paulo\0'])(
    '%j is not valid',
    (name) => {
      expect(canonicalTimeZone(name)).toBeNull();
    },
  );

  it('may be any that Intl lists', () => {
    for (const zone of Intl.supportedValuesOf('timeZone')) {
      expect(canonicalTimeZone(zone), zone).toBe(zone);
    }
  });
});

describe("a zone's offsets", () => {
  it('are those between the instants, to the microsecond, and no others', async () => {
    const change = microseconds('2026-03-08T07:00Z');
    const found = await Promise.all([
      zoneOffsets('America/New_York', change - 5n, change - 1n),
      zoneOffsets('America/New_York', change - 1n, change),
      zoneOffsets('America/New_York', change, change),
      zoneOffsets('America/New_York', -1n, -1n),
    ]);
    const counts = found.map((offsets) => offsets.map(({ offset }) => offset));
    expect(counts).toEqual([hours(-5), hours(-5, -4), hours(-4), hours(-5)]);
  });

  it('are loaded by decade, each in its own turn of the event loop', async () => {
    const { first, last } = zonedYears;
    const [from, to] = [
      microseconds(`${first}-01-01T00:00Z`),
      microseconds(`${last}-12-31T00:00Z`),
    ];
    // No other test of the process writes names so, and has loaded their decades.
    const zones = ['asia/tehran', 'africa/cairo', 'europe/lisbon', 'america/bogota'];
    let turns = 0;
    let timer = setImmediate(function count() {
      turns += 1;
      timer = setImmediate(count);
    });
    await Promise.all(zones.map((zone) => zoneOffsets(zone, from, to)));
    clearImmediate(timer);
    const decades = (last + 1 - first) / 10;
    expect(turns).toBeGreaterThanOrEqual(zones.length * decades - 1);
  });

  it('result in the same day as Intl for any zone and instant', async () => {
    const [min, max] = [Date.parse('1900-01-01T00:00Z'), Date.parse('2099-12-31T00:00Z')];
    const spread = fc.constantFrom(0n, 1n, 400n * 86_400_000_000n);
    const zones = fc.constantFrom(...Intl.supportedValuesOf('timeZone'));
    await fc.assert(
      fc.asyncProperty(
        zones,
        fc.integer({ min, max }),
        spread,
        async (zone, milliseconds, away) => {
          const instant = BigInt(milliseconds) * 1000n;
          const offsets = await zoneOffsets(zone, instant - away, instant + away);
          const found = offsets.find(({ until }) => until === null || instant < until);
          const local = new Date(Number((instant + (found?.offset ?? 0n)) / 1000n));
          expect(local.toISOString().slice(0, 10)).toBe(localDayReader(zone)(instant));
        },
      ),
      { numRuns: 150 },
    );
  });
});
