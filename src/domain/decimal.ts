/** Exact decimal text with two digits: 1234 cents are 12.34. */
export function decimalOf(cents: bigint | number | string): string {
  const amount = BigInt(cents);
  const absolute = String(amount < 0n ? -amount : amount).padStart(3, '0');
  return `${amount < 0n ? '-' : ''}${absolute.slice(0, -2)}.${absolute.slice(-2)}`;
}
