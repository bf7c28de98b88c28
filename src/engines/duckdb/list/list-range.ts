import { isTextColumn, type Purchase, purchaseColumns } from '../../../domain/purchase.ts';
import type { PurchasePlace } from '../../../domain/purchase-query.ts';

/** All purchases of a list that are older than `after` and no older than `end`, newest first. */
export type ListRange = {
  /** Null: the range has the newest purchase. */
  readonly after: PurchasePlace | null;
  /** Null: the range has the oldest purchase. */
  readonly end: PurchasePlace | null;
  /**
   * The place of the purchase after which the range was read, while it has not changed since. Null if the
   * client gave the place: the purchase may have had another one at that time already.
   */
  readonly cursor: PurchasePlace | null;
  readonly purchases: readonly Purchase[];
  /** About the bytes that the purchases take. */
  readonly bytes: number;
};

/** New purchases extend a range up to twice this number. */
const maxGrownPurchases = 500;

/** Of a list or a range without its purchases. */
export const rangeBytes = 500;
/** Of a purchase besides its texts: measured in Node 20. */
const purchaseBytes = 800;
const textColumns = purchaseColumns.filter(isTextColumn);

export function createRange(
  bounds: Pick<ListRange, 'after' | 'end' | 'cursor'>,
  purchases: readonly Purchase[],
): ListRange {
  let bytes = rangeBytes + purchases.length * purchaseBytes;
  for (const purchase of purchases) {
    for (const { name } of textColumns) bytes += 2 * (purchase[name]?.length ?? 0);
  }
  return { ...bounds, purchases, bytes };
}

export function withChanges(
  range: ListRange,
  states: ReadonlyMap<bigint, Purchase | null>,
): ListRange {
  const { after, end } = range;
  const cursor = range.cursor !== null && states.has(range.cursor.id) ? null : range.cursor;
  const kept = range.purchases.filter(({ id }) => !states.has(id));
  const added = [...states.values()].filter(
    (each): each is Purchase => each !== null && hasPlaceFor(range, placeOf(each)),
  );
  if (added.length === 0 && kept.length === range.purchases.length) return { ...range, cursor };
  const purchases = [...kept, ...added].sort(compareNewestFirst);
  if (purchases.length <= 2 * maxGrownPurchases) {
    return createRange({ after, end, cursor }, purchases);
  }
  const newest = purchases.slice(0, maxGrownPurchases);
  return createRange({ after, end: placeOf(newest.at(-1) as Purchase), cursor }, newest);
}

/** Whether the range has all purchases that follow the cursor up to its end. */
export const isWithin = ({ after, end }: ListRange, cursor: PurchasePlace | null): boolean =>
  cursor === null
    ? after === null
    : (after === null || !isOlder(after, cursor)) && (end === null || !isOlder(cursor, end));

const hasPlaceFor = ({ after, end }: ListRange, place: PurchasePlace): boolean =>
  (after === null || isOlder(place, after)) && (end === null || !isOlder(place, end));

/** Whether the place follows `other` in a list. Every place follows null. */
export const isOlder = (place: PurchasePlace, other: PurchasePlace | null): boolean =>
  other === null ||
  place.createdAt < other.createdAt ||
  (place.createdAt === other.createdAt && place.id < other.id);

const compareNewestFirst = (one: Purchase, other: Purchase): number =>
  isOlder(placeOf(one), placeOf(other)) ? 1 : -1;

export const placeOf = ({ id, created_at: createdAt }: Purchase): PurchasePlace => ({
  id,
  createdAt,
});

/** Every purchase has a lesser id, and a greater one than its opposite. */
const greatestId = 2n ** 63n;

/** The place after which a page begins: a bound of time is a place in the list without it. */
export function cursorUntil(
  createdUntil: bigint | undefined,
  cursor: PurchasePlace | null,
): PurchasePlace | null {
  if (createdUntil === undefined) return cursor;
  const until = { id: greatestId, createdAt: createdUntil };
  return cursor !== null && isOlder(cursor, until) ? cursor : until;
}

/** The place that follows the purchases since an instant. */
export const endAt = (createdSince: bigint): PurchasePlace => ({
  id: -greatestId,
  createdAt: createdSince,
});

/** Whether the range has the oldest purchases since an instant. */
export const hasAllSince = ({ end }: ListRange, createdSince: bigint | undefined): boolean =>
  end === null || (createdSince !== undefined && !isOlder(endAt(createdSince), end));
