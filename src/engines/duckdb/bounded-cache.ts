import { LRUCache } from 'lru-cache';

type Present = NonNullable<unknown>;

/** Evicts the least recently used entry. LRUCache's `max` would allocate memory for all entries at once. */
export const createBoundedCache = <Key extends Present, Value extends Present>(
  maxEntries: number,
): LRUCache<Key, Value> => new LRUCache({ maxSize: maxEntries, sizeCalculation: () => 1 });
