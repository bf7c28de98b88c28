/** What a calendar on the wall says, by Intl alone: `YYYY-MM-DD`, of microseconds since 1970. */
export function localDayReader(timeZone: string): (instant: bigint) => string {
  const calendar = new Intl.DateTimeFormat('en-US', {
    timeZone,
    calendar: 'iso8601',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
  });
  return (instant) => {
    // Whole milliseconds, rounded down before 1970 too.
    const millisecond = Number((instant - (((instant % 1000n) + 1000n) % 1000n)) / 1000n);
    const shown = calendar.formatToParts(millisecond);
    const part = (type: string) => shown.find((one) => one.type === type)?.value ?? '';
    return `${part('year').padStart(4, '0')}-${part('month')}-${part('day')}`;
  };
}
