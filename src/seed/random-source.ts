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
  const generator = xoroshiro128plus(mixSeed(parts));
  // Its first values still show how alike all initial states are.
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

/** Neighbouring seeds must not give similar streams, hence a full avalanche per character. */
function mixSeed(parts: readonly (number | string)[]): number {
  let hash = 0x9e3779b9;
  for (const character of parts.join('/')) {
    hash = Math.imul(hash ^ (character.codePointAt(0) as number), 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    hash ^= hash >>> 16;
  }
  return hash | 0;
}

/** Picks an index with a probability proportional to its weight. */
export type WeightedPicker = (random: RandomSource) => number;

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
