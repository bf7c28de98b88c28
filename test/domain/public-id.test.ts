import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  decodeId,
  encodeId,
  encodeIdWithLibrary,
  idPattern,
  idPrefixes,
} from '../../src/domain/public-id.ts';

const resources = Object.keys(idPrefixes) as (keyof typeof idPrefixes)[];

describe('a public id', () => {
  it('decodes to its number, in every range of a bigint', () => {
    const number = fc.oneof(
      fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }),
      fc.bigInt({ min: 2n ** 53n - 3n, max: 2n ** 53n + 3n }),
      fc.bigInt({ min: 1n, max: 100n }),
    );
    fc.assert(
      fc.property(fc.constantFrom(...resources), number, (resource, id) => {
        const text = encodeId(resource, id);
        expect(text).toMatch(idPattern(resource));
        expect(text.length).toBeGreaterThanOrEqual(16);
        expect(decodeId(resource, text)).toBe(id);
      }),
    );
  });

  it('is the only text that decodes to its number', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[A-Za-z0-9]{12,20}$/), (body) => {
        const id = decodeId('purchase', `pur_${body}`);
        if (id !== null) expect(encodeId('purchase', id)).toBe(`pur_${body}`);
      }),
    );
  });

  // Integrations store ids, so an id must never change.
  it('is the same in every release', () => {
    expect(encodeId('purchase', 1n)).toBe('pur_mBxLDNpBEZ6W');
    expect(encodeId('customer', 123_456n)).toBe('cus_5ZUhegzoCMt8');
  });

  it.each(['cus_mBxLDNpBEZ6W', 'pur_', 'pur_short', 'pur_mBxLDNpBEZ6W ', 'mBxLDNpBEZ6W', ''])(
    'of a purchase is not %j',
    (text) => {
      expect(decodeId('purchase', text)).toBeNull();
    },
  );
});

describe('the fast encoder', () => {
  it('returns the same ids as the library', () => {
    const expectSame = (id: bigint) => {
      expect(encodeId('purchase', id)).toBe(encodeIdWithLibrary('purchase', id));
    };
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), fc.nat(63), (number, shift) => {
        expectSame(number >> BigInt(shift));
      }),
      { numRuns: 5_000 },
    );
    for (let id = 0n; id < 8_000n; id += 1n) expectSame(id);
    for (let power = 1n; power < 2n ** 62n; power *= 61n) {
      for (const id of [power - 1n, power, power + 1n, power * 61n - 62n]) {
        if (id >= 0n) expectSame(id);
      }
    }
  });
});
