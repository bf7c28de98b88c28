import type { ExactInteger } from '../api/exact-json.ts';

/** Decimal text with two digits: 1234 cents are 12.34. */
export function decimalOf(cents: ExactInteger): string {
  const amount = BigInt(cents);
  const absolute = String(amount < 0n ? -amount : amount).padStart(3, '0');
  return `${amount < 0n ? '-' : ''}${absolute.slice(0, -2)}.${absolute.slice(-2)}`;
}
