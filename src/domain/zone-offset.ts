/**
 * Returns a function from an instant to the zone's offset; both in milliseconds. A fraction of a second
 * is missing from the local time. Throws RangeError if no zone has the name.
 */
export function offsetReader(timeZone: string): (instant: number) => number {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    calendar: 'gregory',
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  return (instant) => {
    const shown = format.format(instant).match(/\d+/g)?.map(Number) as number[];
    const [month = 0, day = 0, year = 0, hour = 0, minute = 0, second = 0] = shown;
    return Date.UTC(year, month - 1, day, hour, minute, second) - instant;
  };
}
