/** Formats microseconds since 1970 as the local date, `YYYY-MM-DD`, with Intl alone. */
export function localDayReader(timeZone: string): (instant: bigint) => string {
  const calendar = new Intl.DateTimeFormat('en-US', {
    timeZone,
    calendar: 'iso8601',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
  });
  return (instant) => {
    // Rounds down to milliseconds, also before 1970.
    const millisecond = Number((instant - (((instant % 1000n) + 1000n) % 1000n)) / 1000n);
    const parts = calendar.formatToParts(millisecond);
    const part = (type: string) => parts.find((one) => one.type === type)?.value ?? '';
    return `${part('year').padStart(4, '0')}-${part('month')}-${part('day')}`;
  };
}
