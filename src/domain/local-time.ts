import { formatInstant } from './instant.ts';
import { zonedYears } from './time-zone.ts';
import { offsetReader } from './zone-offset.ts';

const hourMs = 3_600_000;
const maxHours = 10_000;
const begin = Date.UTC(zonedYears.first, 0);
const end = Date.UTC(zonedYears.last + 1, 0);

/**
 * Returns a function from an instant (microseconds) to the local time of a zone, such as
 * `2026-01-31 14:05:09`. Fractions of a second are cut off. Other years than `zonedYears` are in UTC.
 */
export function localTimeWriter(timeZone: string): (instant: bigint) => string {
  const offsetAt = offsetReader(timeZone);
  // Intl takes a microsecond or more. NaN: the offset changes within the hour.
  const offsetByHour = new Map<number, number>();
  const offsetOf = (instantMs: number): number => {
    if (instantMs < begin || instantMs >= end) return 0;
    const hour = Math.floor(instantMs / hourMs);
    let offset = offsetByHour.get(hour);
    if (offset === undefined) {
      const [first, next] = [offsetAt(hour * hourMs), offsetAt((hour + 1) * hourMs)];
      offset = first === next ? first : Number.NaN;
      if (offsetByHour.size >= maxHours) offsetByHour.clear();
      offsetByHour.set(hour, offset);
    }
    return Number.isNaN(offset)
      ? offsetAt(instantMs - (((instantMs % 1000) + 1000) % 1000))
      : offset;
  };
  return (instant) => {
    // Rounded down, also before 1970.
    const instantMs = Number((instant - (((instant % 1000n) + 1000n) % 1000n)) / 1000n);
    const local = formatInstant(instant + BigInt(offsetOf(instantMs)) * 1000n);
    return `${local.slice(0, 10)} ${local.slice(11, 19)}`;
  };
}
