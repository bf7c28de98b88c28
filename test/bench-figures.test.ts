import { describe, expect, it } from 'vitest';
import { quantile } from '../bench/measure/statistics.ts';
import { sizesUpTo } from '../bench/suites/growth.ts';
import { requestsOf } from '../bench/suites/http/mixed-load.ts';

describe('a quantile', () => {
  it.each([
    [[7], 0.5, 7],
    [[1, 3], 0.5, 2],
    [[3, 1, 2], 0.5, 2],
    [[1, 2, 3, 4, 5], 0.25, 2],
    [[1, 2, 3, 4], 0.25, 1.75],
    [Array.from({ length: 101 }, (_, index) => index), 0.99, 99],
    [[1, Number.POSITIVE_INFINITY], 1, Number.POSITIVE_INFINITY],
  ])('of %j at %d is %d', (measured, share, expected) => {
    expect(quantile(measured, share)).toBe(expected);
  });

  it('is NaN without a measurement', () => {
    expect(quantile([], 0.5)).toBeNaN();
  });
});

it.each([
  [1_000, [100, 1_000]],
  [12_345, [1_234, 12_345]],
  [105_000, [10_000, 105_000]],
  [300_000, [10_000, 100_000, 300_000]],
])('growth up to %d is measured at %j', (most, sizes) => {
  expect(sizesUpTo(most)).toEqual(sizes);
});

it.each([1, 3, 10, 11, 100, 1001])(
  'a mixed load sends each query for each of %d shops',
  (count) => {
    const shops = Array.from({ length: count }, (_, index) => ({
      organizationId: BigInt(index),
      secret: `key ${index}`,
    }));
    const next = requestsOf(shops);
    const sent = new Set<string>();
    for (let turn = 0; turn < 10 * count; turn += 1) {
      const { path, headers } = next();
      sent.add(`${path.replace(/max_value_in_cents=\d+/, '')} ${headers?.authorization}`);
    }
    expect(sent.size).toBe(10 * count);
  },
);
