import type { LRUCache } from 'lru-cache';
import {
  isTextColumn,
  type Purchase,
  purchaseColumns,
  purchaseFromRow,
} from '../../../domain/purchase.ts';
import type { PurchasePage } from '../../../domain/purchase-engine.ts';
import {
  isUnfiltered,
  type PurchaseFilters,
  type PurchaseListQuery,
  type PurchasePosition,
} from '../../../domain/purchase-query.ts';
import { defaultShortcuts, type Shortcuts } from '../../../duckdb/shortcuts.ts';
import type { ChangedPurchase } from '../../../purchase-store/delta/decode-records.ts';
import { createBoundedCache } from '../serving/bounded-cache.ts';
import { doesMatch } from './matching-purchases.ts';

/**
 * Caches ranges of lists, and brings them up to date with the changes of the log. So a page of a
 * cached range needs no statement of DuckDB, whose plan alone takes longer than all else, also right after
 * the shop has changed.
 */
export type ListCache = {
  /** The cached lists of a store at a position of its log. No other store ever has its `catalog`. */
  of(store: CachedStore): CachedLists;
};

/** A store whose log does not change up to `position`. */
type CachedStore = {
  readonly catalog: string;
  readonly position: number;
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
  /** The position of `startingAfter`. */
  readonly cursor: PurchasePosition | null;
};

/** All purchases of a list that are older than `after` and no older than `end`, newest first. */
type ListRange = {
  /** Null: the range has the newest purchase. */
  readonly after: PurchasePosition | null;
  /** Null: the range has the oldest purchase. */
  readonly end: PurchasePosition | null;
  /**
   * The position of the purchase after which the range was read, while it has not changed since. Null if the
   * client gave the position: the purchase may have had another one at that time already.
   */
  readonly cursor: PurchasePosition | null;
  readonly purchases: readonly Purchase[];
  /** About the bytes that the purchases take. */
  readonly bytes: number;
};

/** The ranges of a list at a position of the log. The one that was read last is the first. */
type CachedList = { readonly position: number; readonly ranges: readonly ListRange[] };

const maxRanges = 4;
/** New purchases extend a range up to twice this number. */
const maxGrownPurchases = 500;
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
  const { catalog, position } = store;

  /** The ranges of a list at the position of the store. */
  const rangesOf = (filters: PurchaseFilters): readonly ListRange[] => {
    const key = keyOf(catalog, filters);
    const list = lists.get(key);
    if (list === undefined || list.position > position) return [];
    if (list.position === position) return list.ranges;
    const changed = store.changesBetween(list.position, position);
    if (changed === null) {
      lists.delete(key);
      return [];
    }
    const states = matchingStates(changed, filters);
    const ranges = list.ranges.map((range) => withChanges(range, states));
    lists.set(key, { position, ranges });
    return ranges;
  };

  return {
    page({ filters, limit, startingAfter }) {
      const ranges = rangesOf(filters);
      const cursor = startingAfter === undefined ? null : positionIn(ranges, startingAfter);
      if (cursor === undefined) return null;
      for (const range of ranges) {
        if (!isWithin(range, cursor)) continue;
        const newest = range.purchases.findIndex((each) => isOlder(positionOf(each), cursor));
        const rest = newest === -1 ? [] : range.purchases.slice(newest, newest + limit + 1);
        const hasMore = rest.length > limit;
        if (hasMore || range.end === null) return { purchases: rest.slice(0, limit), hasMore };
      }
      return null;
    },

    purchase: (id) => findIn(rangesOf({}), id) ?? null,

    async read({ filters, limit, startingAfter, cursor }, read) {
      // One purchase more shows later that there is a next page.
      const size = Math.max(limit + 1, readAhead(rangesOf(filters), cursor, shortcuts));
      const { purchases, hasMore } = await read(size);
      const last = hasMore ? purchases.at(-1) : undefined;
      const end = last === undefined ? null : positionOf(last);
      const ranges = rangesOf(filters);
      const key = keyOf(catalog, filters);
      // Other queries may have cached a later position meanwhile.
      if ((lists.peek(key)?.position ?? 0) <= position) {
        const known = typeof startingAfter === 'bigint' ? cursor : null;
        const added = createRange({ after: cursor, end, cursor: known }, purchases);
        lists.set(key, { position, ranges: [added, ...ranges].slice(0, maxRanges) });
      }
      return { purchases: purchases.slice(0, limit), hasMore: purchases.length > limit };
    },
  };
}

const keyOf = (catalog: string, filters: PurchaseFilters): string =>
  isUnfiltered(filters)
    ? catalog
    : `${catalog} ${JSON.stringify(Object.entries(filters).sort(), (_name, value) =>
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

function withChanges(range: ListRange, states: ReadonlyMap<bigint, Purchase | null>): ListRange {
  const { after, end } = range;
  const cursor = range.cursor !== null && states.has(range.cursor.id) ? null : range.cursor;
  const kept = range.purchases.filter(({ id }) => !states.has(id));
  const added = [...states.values()].filter(
    (each): each is Purchase => each !== null && hasPlaceFor(range, positionOf(each)),
  );
  if (added.length === 0 && kept.length === range.purchases.length) return { ...range, cursor };
  const purchases = [...kept, ...added].sort(compareNewestFirst);
  if (purchases.length <= 2 * maxGrownPurchases) {
    return createRange({ after, end, cursor }, purchases);
  }
  const newest = purchases.slice(0, maxGrownPurchases);
  return createRange({ after, end: positionOf(newest.at(-1) as Purchase), cursor }, newest);
}

/** The number of purchases to read after `cursor`: more if a cached range ends there, as in a walk. */
function readAhead(
  ranges: readonly ListRange[],
  cursor: PurchasePosition | null,
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
  startingAfter: bigint | PurchasePosition,
): PurchasePosition | undefined {
  if (typeof startingAfter !== 'bigint') return startingAfter;
  const purchase = findIn(ranges, startingAfter);
  if (purchase !== undefined) return positionOf(purchase);
  return ranges.find(({ cursor }) => cursor?.id === startingAfter)?.cursor ?? undefined;
}

function findIn(ranges: readonly ListRange[], id: bigint): Purchase | undefined {
  for (const { purchases } of ranges) {
    const found = purchases.find((each) => each.id === id);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Whether the range has all purchases that follow the cursor up to its end. */
const isWithin = ({ after, end }: ListRange, cursor: PurchasePosition | null): boolean =>
  cursor === null
    ? after === null
    : (after === null || !isOlder(after, cursor)) && (end === null || !isOlder(cursor, end));

const hasPlaceFor = ({ after, end }: ListRange, position: PurchasePosition): boolean =>
  (after === null || isOlder(position, after)) && (end === null || !isOlder(position, end));

/** Whether the position follows `other` in a list. Every position follows null. */
const isOlder = (position: PurchasePosition, other: PurchasePosition | null): boolean =>
  other === null ||
  position.createdAt < other.createdAt ||
  (position.createdAt === other.createdAt && position.id < other.id);

const compareNewestFirst = (one: Purchase, other: Purchase): number =>
  isOlder(positionOf(one), positionOf(other)) ? 1 : -1;

const positionOf = ({ id, created_at: createdAt }: Purchase): PurchasePosition => ({
  id,
  createdAt,
});

/** Of a list or a range without its purchases. */
const rangeBytes = 500;
/** Of a purchase besides its texts: measured in Node 20. */
const purchaseBytes = 800;
const textColumns = purchaseColumns.filter(isTextColumn);

function createRange(
  bounds: Pick<ListRange, 'after' | 'end' | 'cursor'>,
  purchases: readonly Purchase[],
): ListRange {
  let bytes = rangeBytes + purchases.length * purchaseBytes;
  for (const purchase of purchases) {
    for (const { name } of textColumns) bytes += 2 * (purchase[name]?.length ?? 0);
  }
  return { ...bounds, purchases, bytes };
}
