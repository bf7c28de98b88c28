import fc from 'fast-check';
import { expect, it } from 'vitest';
import { parseInstant } from '../../src/domain/instant.ts';
import { localTimeWriter } from '../../src/domain/local-time.ts';

const local = (zone: string, instant: string) =>
  localTimeWriter(zone)(parseInstant(instant, 'down') as bigint);

it.each([
  ['America/Sao_Paulo', '2026-01-31T14:05:09.999999Z', '2026-01-31 11:05:09'],
  // The hour that clocks repeat, and the one that they leave out.
  ['Europe/Berlin', '2026-10-25T00:59:59.999999Z', '2026-10-25 02:59:59'],
  ['Europe/Berlin', '2026-10-25T01:00:00Z', '2026-10-25 02:00:00'],
  ['Europe/Berlin', '2026-03-29T00:59:59Z', '2026-03-29 01:59:59'],
  ['Europe/Berlin', '2026-03-29T01:00:00Z', '2026-03-29 03:00:00'],
  // A zone changed its offset within an hour.
  ['Africa/Monrovia', '1972-01-07T00:44:29.5Z', '1972-01-06 23:59:59'],
  ['Africa/Monrovia', '1972-01-07T00:44:30Z', '1972-01-07 00:44:30'],
  ['Asia/Kolkata', '1969-12-31T23:59:59.999999Z', '1970-01-01 05:29:59'],
  // Years without local time.
  ['Asia/Tokyo', '1899-12-31T23:59:59Z', '1899-12-31 23:59:59'],
  ['Asia/Tokyo', '9999-12-31T23:59:59.999999Z', '9999-12-31 23:59:59'],
  ['Asia/Tokyo', '0001-01-01T00:00:00Z', '0001-01-01 00:00:00'],
])('the local time of %s at %s is %s', (zone, instant, expected) => {
  expect(local(zone, instant)).toBe(expected);
});

it('a local time is that of Intl at any instant', () => {
  const write = localTimeWriter('America/Sao_Paulo');
  const format = new Intl.DateTimeFormat('sv-SE', {
    timeZone: 'America/Sao_Paulo',
    dateStyle: 'short',
    timeStyle: 'medium',
  });
  const [from, to] = [Date.UTC(1930, 0), Date.UTC(2090, 0)];
  fc.assert(
    fc.property(fc.integer({ min: from, max: to }), (instantMs) => {
      expect(write(BigInt(instantMs) * 1000n)).toBe(format.format(instantMs));
    }),
  );
});
