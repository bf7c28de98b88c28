import { createHash } from 'node:crypto';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';

/** A stream of random values that depends on its seed alone. */
export type RandomSource = {
  /** From 0 up to, but not including, 1. */
  fraction(): number;
  /** A whole number from 0 to `below - 1`. */
  integer(below: number): number;
  /** From `low` up to, but not including, `high`. */
  between(low: number, high: number): number;
  chance(probability: number): boolean;
  pick<T>(items: readonly T[]): T;
  /** Mean 0, standard deviation 1. */
  normal(): number;
};

/**
 * `parts` name the stream (run, organization, purpose), so that one resource's
 * rows stay the same when another resource draws more values.
 */
export function createRandomSource(...parts: readonly (number | string)[]): RandomSource {
  const seed = createHash('sha256').update(parts.join('/')).digest().readInt32LE();
  const generator = xoroshiro128plus(seed);
  // The first values of similar seeds are correlated.
  for (let skipped = 0; skipped < 32; skipped++) generator.next();
  const fraction = () => (generator.next() >>> 0) / 0x1_0000_0000;
  return {
    fraction,
    integer: (below) => Math.floor(fraction() * below),
    between: (low, high) => low + fraction() * (high - low),
    chance: (probability) => fraction() < probability,
    pick: <T>(items: readonly T[]) => items[Math.floor(fraction() * items.length)] as T,
    normal: () => Math.sqrt(-2 * Math.log(1 - fraction())) * Math.cos(2 * Math.PI * fraction()),
  };
}

/** Picks an index with a probability proportional to its weight. */
type WeightedPicker = (random: RandomSource) => number;

export function createWeightedPicker(weights: readonly number[]): WeightedPicker {
  const sums = new Float64Array(weights.length);
  let total = 0;
  for (const [index, weight] of weights.entries()) {
    total += weight;
    sums[index] = total;
  }
  return (random) => firstAbove(sums, random.fraction() * total, sums.length);
}

/** Weights of Zipf's law: few items take most, with a long tail. */
export function zipfWeights(count: number, exponent: number): number[] {
  return Array.from({ length: count }, (_, index) => (index + 1) ** -exponent);
}

/** The first of the `length` ascending sums that is greater than `value`. */
export function firstAbove(sums: Float64Array, value: number, length: number): number {
  let low = 0;
  let high = length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sums[middle] as number) > value) high = middle;
    else low = middle + 1;
  }
  return low;
}
