import { describe, expect } from 'vitest';
import { isTextColumn, maxTextBytes, purchaseColumns } from '../../src/domain/purchase.ts';
import { test as it } from '../support/fixtures.ts';
import { addPurchase } from '../support/shop.ts';

const texts = purchaseColumns.filter(isTextColumn);

describe('the lengths of a purchase’s texts', () => {
  /** A text with this number of bytes, mostly of two-byte characters. Coupons are JSON. */
  const textOf = (kind: keyof typeof maxTextBytes, bytes: number): string => {
    const [before, after] = kind === 'coupons' ? ['["', '"]'] : ['', ''];
    const rest = bytes - before.length - after.length;
    return `${before}${'é'.repeat(rest >> 1)}${'e'.repeat(rest & 1)}${after}`;
  };

  it.for(texts)(
    '$name have at most maxTextBytes',
    async ({ name, kind }, { database, shop, customerId }) => {
      const max = maxTextBytes[kind];
      const add = (bytes: number) =>
        addPurchase(database.pool, shop.organizationId, {
          customer_id: customerId,
          [name]: textOf(kind, bytes),
        });
      await add(max);
      await expect(add(max + 1)).rejects.toMatchObject({
        code: '23514',
        constraint: `${kind === 'coupons' ? 'coupons' : 'texts'}_at_most_${max}_bytes`,
      });
    },
  );
});
