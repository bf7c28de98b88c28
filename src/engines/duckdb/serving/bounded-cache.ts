import { LRUCache } from 'lru-cache';

type Present = NonNullable<unknown>;

/**
 * Evicts the least recently used entries beyond `maxSize`. Each has the size 1 unless `sizeOf` says otherwise.
 * LRUCache's `max` would allocate memory for all entries at once.
 */
export const createBoundedCache = <Key extends Present, Value extends Present>(
  maxSize: number,
  sizeOf: (value: Value) => number = () => 1,
): LRUCache<Key, Value> => new LRUCache({ maxSize, sizeCalculation: sizeOf });
