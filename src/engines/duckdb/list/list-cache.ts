import type { LRUCache } from 'lru-cache';
import { type Purchase, purchaseFromRow } from '../../../domain/purchase.ts';
import type { PurchasePage } from '../../../domain/purchase-engine.ts';
import {
  isUnfiltered,
  type PurchaseFilters,
  type PurchaseListQuery,
  type PurchasePlace,
} from '../../../domain/purchase-query.ts';
import { defaultShortcuts, type Shortcuts } from '../../../duckdb/shortcuts.ts';
import { createBoundedCache } from '../../../process/bounded-cache.ts';
import type { ChangedPurchase } from '../../../purchase-store/delta/decode-records.ts';
import {
  createRange,
  cursorUntil,
  endAt,
  hasAllSince,
  isOlder,
  isWithin,
  type ListRange,
  placeOf,
  rangeBytes,
  withChanges,
} from './list-range.ts';
import { doesMatch } from './matching-purchases.ts';

/**
 * Caches ranges of lists, and brings them up to date with the changes of the log. So a page of a
 * cached range needs no statement of DuckDB, whose plan alone takes longer than all else, also right after
 * the shop has changed.
 */
export type ListCache = {
  /** The cached lists of a store with a part of its log. No other store ever has its `catalog`. */
  of(store: CachedStore): CachedLists;
};

/** A store whose log does not change up to `logBytes`. */
type CachedStore = {
  readonly catalog: string;
  readonly logBytes: number;
  /** The changes between two positions of the log; null if they are too many to decode at once. */
  changesBetween(from: number, to: number): readonly ChangedPurchase[] | null;
};

export type CachedLists = {
  /** Null if the page is not cached. */
  page(query: PurchaseListQuery): PurchasePage | null;
  /** A purchase of a cached list without filters; null if none has it. */
  purchase(id: bigint): Purchase | null;
  /** Reads a page by `read`, and caches it. A page after a cached one is read with those that follow. */
  read(query: ReadQuery, read: (limit: number) => Promise<PurchasePage>): Promise<PurchasePage>;
};

type ReadQuery = PurchaseListQuery & {
  /** The place of `startingAfter`. */
  readonly cursor: PurchasePlace | null;
  /** No purchase is later; microseconds since 1970. */
  readonly last: bigint;
};

/** The ranges of a list with a part of the log. The one that was read last is the first. */
type CachedList = { readonly logBytes: number; readonly ranges: readonly ListRange[] };

const maxRanges = 4;
const maxRangeBytes = 2 ** 20;
/** The growth of a range from one read of a walk to the next. A client that reads one page reads no other. */
const readAheadFactor = 4;

export function createListCache(shortcuts: Shortcuts = defaultShortcuts): ListCache {
  const lists: LRUCache<string, CachedList> = createBoundedCache(
    shortcuts.listCacheBytes,
    ({ ranges }) => ranges.reduce((sum, { bytes }) => sum + bytes, rangeBytes),
  );
  return { of: (store) => createCachedLists(lists, store, shortcuts) };
}

function createCachedLists(
  lists: LRUCache<string, CachedList>,
  store: CachedStore,
  shortcuts: Shortcuts,
): CachedLists {
  const { catalog, logBytes } = store;

  /** The ranges of a list without bounds with the log of the store. */
  const rangesOf = (filters: PurchaseFilters): readonly ListRange[] => {
    const key = keyOf(catalog, filters);
    const list = lists.get(key);
    if (list === undefined || list.logBytes > logBytes) return [];
    if (list.logBytes === logBytes) return list.ranges;
    const changed = store.changesBetween(list.logBytes, logBytes);
    if (changed === null) {
      lists.delete(key);
      return [];
    }
    const states = matchingStates(changed, filters);
    const ranges = list.ranges.map((range) => withChanges(range, states));
    lists.set(key, { logBytes, ranges });
    return ranges;
  };

  return {
    page({ filters: { createdSince, createdUntil, ...filters }, limit, startingAfter }) {
      const ranges = rangesOf(filters);
      const given = startingAfter === undefined ? null : positionIn(ranges, startingAfter);
      if (given === undefined) return null;
      const cursor = cursorUntil(createdUntil, given);
      for (const range of ranges) {
        if (!isWithin(range, cursor)) continue;
        const newest = range.purchases.findIndex((each) => isOlder(placeOf(each), cursor));
        const rest = newest === -1 ? [] : range.purchases.slice(newest, newest + limit + 1);
        const earlier =
          createdSince === undefined
            ? -1
            : rest.findIndex(({ created_at: createdAt }) => createdAt < createdSince);
        const listed = earlier === -1 ? rest : rest.slice(0, earlier);
        const hasMore = listed.length > limit;
        const isWhole = earlier !== -1 || hasAllSince(range, createdSince);
        if (hasMore || isWhole) return { purchases: listed.slice(0, limit), hasMore };
      }
      return null;
    },

    purchase: (id) => findIn(rangesOf({}), id) ?? null,

    async read(query, read) {
      const { limit, startingAfter, cursor, last } = query;
      const { createdSince, createdUntil, ...filters } = query.filters;
      // One purchase more shows later that there is a next page.
      const size = Math.max(limit + 1, readAhead(rangesOf(filters), cursor, shortcuts));
      const { purchases, hasMore } = await read(size);
      const oldest = hasMore ? purchases.at(-1) : undefined;
      const endOfAll = createdSince === undefined ? null : endAt(createdSince);
      const end = oldest === undefined ? endOfAll : placeOf(oldest);
      const isAfterAll = createdUntil !== undefined && createdUntil >= last;
      const after = cursorUntil(isAfterAll ? undefined : createdUntil, cursor);
      const ranges = rangesOf(filters);
      const key = keyOf(catalog, filters);
      // Other queries may have cached more of the log meanwhile.
      if ((lists.peek(key)?.logBytes ?? 0) <= logBytes) {
        const known = typeof startingAfter === 'bigint' ? cursor : null;
        const added = createRange({ after, end, cursor: known }, purchases);
        lists.set(key, { logBytes, ranges: [added, ...ranges].slice(0, maxRanges) });
      }
      return { purchases: purchases.slice(0, limit), hasMore: purchases.length > limit };
    },
  };
}

const byName = ([one]: [string, unknown], [other]: [string, unknown]): number =>
  one < other ? -1 : 1;

const keyOf = (catalog: string, filters: PurchaseFilters): string =>
  isUnfiltered(filters)
    ? catalog
    : `${catalog} ${JSON.stringify(Object.entries(filters).sort(byName), (_name, value) =>
        typeof value === 'bigint' ? String(value) : value,
      )}`;

/** The present states of changed purchases by id: null if a purchase is deleted or does not match. */
function matchingStates(
  changed: readonly ChangedPurchase[],
  filters: PurchaseFilters,
): ReadonlyMap<bigint, Purchase | null> {
  return new Map(
    changed.map(({ id, row }) => {
      const purchase = row === null ? null : purchaseFromRow(row);
      return [id, purchase !== null && doesMatch(purchase, filters) ? purchase : null];
    }),
  );
}

/** The number of purchases to read after `cursor`: more if a cached range ends there, as in a walk. */
function readAhead(
  ranges: readonly ListRange[],
  cursor: PurchasePlace | null,
  { maxReadAheadPurchases }: Shortcuts,
): number {
  const before = ranges.find((range) => cursor !== null && isWithin(range, cursor));
  if (before === undefined) return 0;
  const { purchases, bytes } = before;
  const maxPurchases = Math.floor((maxRangeBytes / bytes) * purchases.length);
  return Math.min(readAheadFactor * purchases.length, maxReadAheadPurchases, maxPurchases);
}

/** Undefined if no range has a purchase with this id, or was read after it. */
function positionIn(
  ranges: readonly ListRange[],
  startingAfter: bigint | PurchasePlace,
): PurchasePlace | undefined {
  if (typeof startingAfter !== 'bigint') return startingAfter;
  const purchase = findIn(ranges, startingAfter);
  if (purchase !== undefined) return placeOf(purchase);
  return ranges.find(({ cursor }) => cursor?.id === startingAfter)?.cursor ?? undefined;
}

function findIn(ranges: readonly ListRange[], id: bigint): Purchase | undefined {
  for (const { purchases } of ranges) {
    const found = purchases.find((each) => each.id === id);
    if (found !== undefined) return found;
  }
  return undefined;
}
