/** Exact decimal text: 1234 with two digits is 12.34, and with none 1234. */
export function decimalOf(amount: bigint | number | string, digits: number): string {
  const value = BigInt(amount);
  const absolute = String(value < 0n ? -value : value).padStart(digits + 1, '0');
  const sign = value < 0n ? '-' : '';
  if (digits === 0) return sign + absolute;
  return `${sign}${absolute.slice(0, -digits)}.${absolute.slice(-digits)}`;
}
