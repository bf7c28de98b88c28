/**
 * Instants are bigint microseconds since 1970-01-01T00:00:00Z, the precision of Postgres and
 * DuckDB. A JavaScript Date has only milliseconds.
 */

const dateTimePattern =
  /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?([Zz]|[+\- ]\d{2}(?::?\d{2})?)?$/;

export const earliestInstant = BigInt(Date.parse('0001-01-01T00:00:00Z')) * 1000n;
export const latestInstant = BigInt(Date.parse('9999-12-31T23:59:59.999Z')) * 1000n + 999n;

/**
 * Parses an ISO 8601 date-time, in UTC if there is no offset. Digits beyond the microsecond are
 * rounded, so that an inclusive bound matches the same purchases at both precisions. Returns null
 * for any other text, and for days that do not exist.
 */
export function parseInstant(text: string, round: 'up' | 'down'): bigint | null {
  const match = dateTimePattern.exec(text);
  if (match === null) return null;
  const [year, month, day, hour, minute] = match.slice(1, 6).map(Number) as [
    number,
    number,
    number,
    number,
    number,
  ];
  const second = Number(match[6] ?? '0');
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second);
  const exists =
    date.getUTCFullYear() === year &&
    date.getUTCMonth() === month - 1 &&
    date.getUTCDate() === day &&
    hour < 24 &&
    minute < 60 &&
    second < 60;
  if (!exists) return null;

  const offset = offsetMinutes(match[8]);
  if (offset === null) return null;
  const nanoseconds = BigInt((match[7] ?? '').padEnd(9, '0'));
  const fraction = (nanoseconds + (round === 'up' ? 999n : 0n)) / 1000n;
  const instant = BigInt(date.getTime() - offset * 60_000) * 1000n + fraction;
  return instant < earliestInstant || instant > latestInstant ? null : instant;
}

/** Minutes east of UTC. A `+` of a query string is decoded as a space. */
function offsetMinutes(text: string | undefined): number | null {
  if (text === undefined || text === 'Z' || text === 'z') return 0;
  const hours = Number(text.slice(1, 3));
  const minutes = text.length > 3 ? Number(text.slice(-2)) : 0;
  if (hours > 23 || minutes > 59) return null;
  return (text[0] === '-' ? -1 : 1) * (hours * 60 + minutes);
}

/** Formats an instant in UTC, always with six fractional digits. */
export function formatInstant(instant: bigint): string {
  const milliseconds = Number(instant / 1000n);
  const microseconds = Number(instant % 1000n);
  // Division truncates towards zero, so the remainder is negative before 1970.
  const whole = microseconds < 0 ? milliseconds - 1 : milliseconds;
  const rest = microseconds < 0 ? microseconds + 1000 : microseconds;
  return `${new Date(whole).toISOString().slice(0, -1)}${String(rest).padStart(3, '0')}Z`;
}
