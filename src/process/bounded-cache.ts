import { LRUCache } from 'lru-cache';

type Present = NonNullable<unknown>;

/**
 * Evicts the least recently used entries beyond `maxBytes`. Without bytes, it keeps nothing. LRUCache's `max`
 * would allocate memory for all entries at once.
 */
export const createBoundedCache = <Key extends Present, Value extends Present>(
  maxBytes: number,
  bytesOf: (value: Value, key: Key) => number,
): LRUCache<Key, Value> => {
  const maxSize = Math.floor(maxBytes);
  // LRUCache has no size 0, and no entry that is larger than all.
  return maxSize < 1
    ? new LRUCache({ maxSize: 1, sizeCalculation: () => 2 })
    : new LRUCache({ maxSize, sizeCalculation: bytesOf });
};
