import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type Purchase,
  type PurchaseRow,
  purchaseColumns,
  purchaseFromRow,
} from '../../src/domain/purchase.ts';
import type { PurchaseFilters } from '../../src/domain/purchase-query.ts';
import { type CachedLists, createListCache } from '../../src/engines/duckdb/list/list-cache.ts';
import { doesMatch } from '../../src/engines/duckdb/list/matching-purchases.ts';
import type { ChangedPurchase } from '../../src/purchase-store/delta/decode-records.ts';

/** The row of a purchase of a customer at an instant. */
const rowOf = (id: number, createdAt: number, customer = 1): PurchaseRow =>
  purchaseColumns.map(({ name, required }) => {
    if (name === 'id') return BigInt(id);
    if (name === 'created_at') return BigInt(createdAt);
    if (name === 'customer_id') return BigInt(customer);
    return required ? 0n : null;
  });

/** A store of these purchases, with a log of changes. Positions are numbers of changes. */
function createStore(rows: readonly PurchaseRow[]) {
  const current = new Map(rows.map((row) => [row[0] as bigint, row]));
  const log: ChangedPurchase[] = [];
  const cache = createListCache();
  const limits: number[] = [];
  let maxChanges = Number.POSITIVE_INFINITY;
  const listOf = (filters: PurchaseFilters): Purchase[] =>
    [...current.values()]
      .map(purchaseFromRow)
      .filter((purchase) => doesMatch(purchase, filters))
      .sort((one, other) => Number(other.created_at - one.created_at || other.id - one.id));
  const pageOf = (filters: PurchaseFilters, after: Purchase | undefined, limit: number) => {
    const list = listOf(filters);
    const older = list.filter(
      ({ created_at: at, id }) =>
        after === undefined || at < after.created_at || (at === after.created_at && id < after.id),
    );
    return { purchases: older.slice(0, limit), hasMore: older.length > limit };
  };
  const lastOf = () => listOf({})[0]?.created_at ?? 0n;
  const at = (logBytes = log.length): CachedLists =>
    cache.of({
      catalog: 'delta_1',
      logBytes,
      changesBetween(from, to) {
        if (to - from > maxChanges) return null;
        return [...new Map(log.slice(from, to).map((change) => [change.id, change])).values()];
      },
    });
  return {
    at,
    listOf,
    pageOf,
    /** The limits of the pages that were not cached. */
    limits,
    limitChanges: (max: number) => {
      maxChanges = max;
    },
    change(id: number, row: PurchaseRow | null) {
      if (row === null) current.delete(BigInt(id));
      else current.set(BigInt(id), row);
      log.push({ id: BigInt(id), row });
    },
    /** A page of the cache, or else one that is read and cached. `byId`: after the purchase as it is now. */
    async list(filters: PurchaseFilters, after?: Purchase, limit = 3, byId = false) {
      const lists = at();
      const cursor = after === undefined ? null : { id: after.id, createdAt: after.created_at };
      const startingAfter = (byId ? cursor?.id : cursor) ?? undefined;
      const query = { filters, limit, startingAfter };
      const cached = lists.page(query);
      if (cached !== null) return cached;
      return lists.read({ ...query, cursor, last: lastOf() }, async (size) => {
        limits.push(size);
        return pageOf(filters, after, size);
      });
    },
  };
}

const rows = (count: number) =>
  Array.from({ length: count }, (_, index) => rowOf(index + 1, index + 1));
const ids = ({ purchases }: { purchases: readonly Purchase[] }) => purchases.map(({ id }) => id);

describe('a cached list', () => {
  it('has the same pages as the purchases, after any changes', async () => {
    const id = fc.integer({ min: 1, max: 40 });
    const state = fc.record({
      id,
      createdAt: fc.integer({ min: 1, max: 12 }),
      customer: fc.integer({ min: 1, max: 2 }),
      isDeleted: fc.boolean(),
    });
    const instant = fc.bigInt({ min: 0n, max: 13n });
    const bounds = fc.record(
      { createdSince: instant, createdUntil: instant },
      { requiredKeys: [] },
    );
    const others = fc.constantFrom<PurchaseFilters>(
      {},
      { customerId: 2n },
      { minValueInCents: 1n },
    );
    const filters = fc.tuple(others, bounds).map(([other, range]) => ({ ...other, ...range }));
    const page = fc.record({
      filters,
      after: fc.option(fc.nat(30)),
      isAfterId: fc.boolean(),
      limit: fc.integer({ min: 1, max: 9 }),
    });
    const steps = fc.array(fc.oneof(state, page), { minLength: 20, maxLength: 80 });
    await fc.assert(
      fc.asyncProperty(steps, async (all) => {
        const store = createStore(rows(30));
        /** Purchases as they were: their positions are opaque cursors. */
        const earlier = store.listOf({});
        for (const step of all) {
          if ('isDeleted' in step) {
            const { isDeleted, createdAt, customer } = step;
            store.change(step.id, isDeleted ? null : rowOf(step.id, createdAt, customer));
            continue;
          }
          const purchases = step.isAfterId ? store.listOf({}) : earlier;
          const after = step.after === null ? undefined : purchases[step.after];
          const expected = store.pageOf(step.filters, after, step.limit);
          expect(await store.list(step.filters, after, step.limit, step.isAfterId)).toEqual(
            expected,
          );
        }
      }),
      { numRuns: 200, seed: 5 },
    );
  });

  it('shows new, changed and deleted purchases without another read', async () => {
    const store = createStore(rows(9));
    expect(ids(await store.list({}))).toEqual([9n, 8n, 7n]);
    store.change(10, rowOf(10, 10));
    store.change(9, null);
    store.change(2, rowOf(2, 8));
    expect(ids(await store.list({}))).toEqual([10n, 8n, 2n]);
    expect(store.at().purchase(2n)).toMatchObject({ created_at: 8n });
    expect(store.limits).toEqual([4]);
  });

  it('has the pages of ranges, which are read once', async () => {
    const store = createStore(rows(9));
    for (const until of [9n, 10n, 11n]) {
      store.change(Number(until), rowOf(Number(until), Number(until)));
      const range = { createdSince: until - 8n, createdUntil: until };
      expect(ids(await store.list(range))).toEqual([until, until - 1n, until - 2n]);
    }
    expect(store.limits).toEqual([4]);
    const early = { createdSince: 3n, createdUntil: 5n };
    for (let count = 0; count < 2; count += 1) {
      expect(await store.list(early)).toMatchObject({ hasMore: false });
      expect(ids(await store.list({ ...early, createdSince: 4n }))).toEqual([5n, 4n]);
    }
    expect(store.limits).toEqual([4, 4]);
    expect(ids(await store.list({ createdUntil: 8n }, undefined, 2))).toEqual([8n, 7n]);
    expect(store.limits).toEqual([4, 4]);
  });

  it('is read again after too many changes, and for an earlier version', async () => {
    const store = createStore(rows(9));
    const earlier = store.at();
    store.change(10, rowOf(10, 10));
    await store.list({});
    expect(earlier.page({ filters: {}, limit: 3 })).toBeNull();
    expect(earlier.purchase(10n)).toBeNull();
    // A version that was read late does not replace a later one.
    await earlier.read({ filters: {}, limit: 3, cursor: null, last: 9n }, async (size) =>
      createStore(rows(9)).pageOf({}, undefined, size),
    );
    expect(ids(await store.list({}))).toEqual([10n, 9n, 8n]);
    expect(store.limits).toEqual([4]);
    store.limitChanges(1);
    store.change(11, rowOf(11, 11));
    store.change(12, rowOf(12, 12));
    expect(ids(await store.list({}))).toEqual([12n, 11n, 10n]);
    expect(store.limits).toEqual([4, 4]);
  });

  it('is not read again after the same purchase, unless that has changed', async () => {
    const store = createStore(rows(9));
    const [, , seventh] = store.listOf({});
    const list = () => store.list({}, seventh, 3, true);
    for (let count = 0; count < 2; count += 1) expect(ids(await list())).toEqual([6n, 5n, 4n]);
    expect(store.limits).toEqual([4]);
    store.change(7, rowOf(7, 9));
    expect(ids(await store.list({}, store.listOf({})[1], 3, true))).toEqual([8n, 6n, 5n]);
    expect(store.limits).toEqual([4, 4]);
  });

  it('begins after a purchase where it is now, also after a page that began where it was', async () => {
    const store = createStore(rows(9));
    const [ninth] = (await store.list({}, undefined, 1)).purchases;
    store.change(9, rowOf(9, 4));
    expect(ids(await store.list({}, ninth))).toEqual([8n, 7n, 6n]);
    const [, , , , moved] = store.listOf({});
    expect(moved).toMatchObject({ id: 9n, created_at: 4n });
    expect(ids(await store.list({}, moved, 3, true))).toEqual([4n, 3n, 2n]);
  });

  it('is read in growing ranges while a client walks through it', async () => {
    const store = createStore(rows(1_000));
    const walked: Purchase[] = [];
    for (let hasMore = true; hasMore; ) {
      const page = await store.list({}, walked.at(-1), 10);
      walked.push(...page.purchases);
      ({ hasMore } = page);
    }
    expect(walked).toEqual(store.listOf({}));
    expect(store.limits).toEqual([11, 44, 176, 500, 500]);
    // A page that follows no cached one is read alone.
    await store.list({}, store.listOf({})[3], 200);
    expect(store.limits.at(-1)).toBe(201);
  });
});
