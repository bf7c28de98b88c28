import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { digitsByCurrency, minorDigits } from '../../src/domain/currency.ts';
import { decimalOf } from '../../src/domain/decimal.ts';
import { packageFile } from '../../src/process/package-files.ts';

it.each([
  ['BRL', 2],
  ['USD', 2],
  ['JPY', 0],
  ['UGX', 0],
  ['KWD', 3],
  ['IQD', 3],
  ['CLF', 4],
  [null, 2],
  ['', 2],
  ['XYZ', 2],
  // Filters compare codes exactly too.
  ['jpy', 2],
  // Names that every object has.
  ['constructor', 2],
  ['__proto__', 2],
] as const)('amounts of the currency %s have %s decimal digits', (currency, expected) => {
  expect(minorDigits(currency)).toBe(expected);
});

it.each([
  [0n, 2, '0.00'],
  [5n, 2, '0.05'],
  [-5n, 2, '-0.05'],
  [-120n, 2, '-1.20'],
  [9007199254740993n, 2, '90071992547409.93'],
  [-(2n ** 63n), 2, '-92233720368547758.08'],
  [0n, 0, '0'],
  [-5n, 0, '-5'],
  [-(2n ** 63n), 0, '-9223372036854775808'],
  [0n, 3, '0.000'],
  [-1234n, 3, '-1.234'],
  [5n, 4, '0.0005'],
])('%s with %s digits is exact decimal text: %s', (amount, digits, expected) => {
  expect(decimalOf(amount, digits)).toBe(expected);
});

it('docs/api.md lists the currencies whose amounts do not have two digits', () => {
  const text = readFileSync(packageFile('docs/api.md'), 'utf8');
  const rows = [...text.matchAll(/^\| ((?:[A-Z]{3}(?:, )?)+) \| (\d) \| /gm)];
  const listed = rows.flatMap(([, codes = '', digits]) =>
    codes.split(', ').map((code) => [code, Number(digits)]),
  );
  expect(Object.fromEntries(listed)).toEqual(digitsByCurrency);
});
