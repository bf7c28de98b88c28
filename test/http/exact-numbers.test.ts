import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseExactly, writeExactly } from '../../src/domain/exact-numbers.ts';

/** Numbers as Postgres writes them: no exponent and no superfluous leading zero. */
const number = fc
  .tuple(fc.boolean(), fc.bigInt(0n, 10n ** 40n), fc.stringMatching(/^(\.[0-9]{1,25})?$/))
  .map(([isNegative, whole, fraction]) => `${isNegative ? '-' : ''}${whole}${fraction}`)
  .filter((text) => text !== '-0');
const oddText = fc.constantFrom(
  ...['12345678901234567890', '1.0', '\\u00001234', '"\\u000012"', '"', '\\', '\\"', ':1.0,', '-'],
);
const text = fc
  .oneof(oddText, fc.string({ unit: 'binary', maxLength: 30 }))
  .map((value) => value.replaceAll('\0', ''));
// JavaScript moves names that are integers to the front, so names start with `_`.
const name = text.map((value) => JSON.stringify(`_${value}`));

const { json } = fc.letrec<{ json: string }>((tie) => ({
  json: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    number,
    text.map((value) => JSON.stringify(value)),
    fc.constantFrom('null', 'true', 'false', '[]', '{}'),
    fc.array(tie('json'), { minLength: 1, maxLength: 5 }).map((items) => `[${items.join()}]`),
    fc
      .uniqueArray(fc.tuple(name, tie('json')), { selector: ([key]) => key, maxLength: 5 })
      .map((members) => `{${members.map(([key, value]) => `${key}:${value}`).join()}}`),
  ),
}));

describe('numbers of stored JSON', () => {
  it('are written as they were read, and nothing else changes', () => {
    fc.assert(
      fc.property(json, (stored) => {
        expect(writeExactly(JSON.stringify(parseExactly(stored)))).toBe(stored);
      }),
      { numRuns: 2000 },
    );
  });

  it('keep their names, whatever was parsed before', () => {
    const names = [
      '_\\',
      '_"',
      '_\n',
      '\\',
      '"',
      '\\"',
      '""',
      '\ud83d\ude00"',
      '__proto__',
      '"\u0001',
      '%',
      '%22',
    ];
    for (const before of names) {
      for (const after of names) {
        for (const name of [before, after]) {
          const stored = `{"a":${JSON.stringify(name)},${JSON.stringify(name)}:[{"":1}]}`;
          expect(JSON.stringify(parseExactly(stored))).toBe(stored);
        }
      }
    }
  });

  it('are found in text of any length', () => {
    const stored = `["${'a\\"'.repeat(2_000_000)}",12345678901234567890]`;
    expect(writeExactly(JSON.stringify(parseExactly(stored)))).toBe(stored);
  });
});
