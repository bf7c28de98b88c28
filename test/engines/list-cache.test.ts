import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseInstant } from '../../src/domain/instant.ts';
import {
  type Purchase,
  type PurchaseRow,
  purchaseColumns,
  purchaseFromRow,
  trackingLabels,
} from '../../src/domain/purchase.ts';
import { optionalDimensions, type PurchaseFilters } from '../../src/domain/purchase-query.ts';
import { type CachedLists, createListCache } from '../../src/engines/duckdb/list/list-cache.ts';
import { doesMatch } from '../../src/engines/duckdb/list/matching-purchases.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import type { ChangedPurchase } from '../../src/purchase-store/delta/decode-records.ts';
import {
  awkwardAmounts,
  awkwardCodes,
  awkwardInstants,
  awkwardLabels,
  awkwardPurchase,
} from '../support/awkward-purchases.ts';
import { test as published } from '../support/fixtures.ts';
import { untilShown } from '../support/published.ts';
import { addCustomer, addPurchase } from '../support/shop.ts';

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
  const at = (position = log.length): CachedLists =>
    cache.of({
      catalog: 'delta_1',
      position,
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

/** Before and after a change of clocks. */
const offsets = [
  { offset: -3n * 3_600_000_000n, until: parseInstant('2024-03-01T00:00:00Z', 'down') },
  { offset: 5_400_000_000n, until: null },
];

/** A filter of each kind, and two of which some awkward purchases match both. */
const everyFilter = (customerId: bigint): PurchaseFilters[] => [
  {},
  { customerId },
  { paymentStatuses: ['paid', 'refunded'] },
  { platforms: ['shopify', 'woocommerce'] },
  ...awkwardInstants.slice(0, 3).flatMap((text) => {
    const instant = parseInstant(text, 'down') as bigint;
    return [{ createdSince: instant }, { createdUntil: instant }];
  }),
  ...awkwardAmounts
    .filter((cents) => cents >= 0n)
    .flatMap((cents) => [{ minValueInCents: cents }, { maxValueInCents: cents }]),
  { currency: ['BRL', 'USD'] },
  { currency: [''] },
  ...optionalDimensions.map((dimension) => ({ without: [dimension] })),
  ...awkwardCodes.map((code) => ({ coupon: [code] })),
  { coupon: ['FREE', '7'], without: ['currency'] },
  ...awkwardLabels.map((label) => ({ not: { utm_source: [label] } })),
  { not: { status: ['paid', 'refunded'], utm_term: awkwardLabels.slice(0, 3) } },
  { not: { coupon: ['FREE', '7'] } },
  ...[1, 4, 7].map((weekday) => ({ localTimes: { weekdays: [weekday, 3], offsets } })),
  ...[0, 20, 23].map((hour) => ({
    localTimes: { hours: [hour, 19], weekdays: [1, 3, 4], offsets },
  })),
  ...trackingLabels.flatMap((name) => awkwardLabels.map((label) => ({ [name]: [label] }))),
  { utm_source: [...awkwardLabels] },
  { utm_term: awkwardLabels.slice(0, 3), utm_medium: awkwardLabels.slice(2, 9) },
  { customerId, minValueInCents: 1n },
];

published(
  'purchases, and cached lists with each filter, are those of Postgres after changes',
  { tags: ['slow'], timeout: 120_000 },
  async ({
    database: { pool },
    directory,
    organizationId: id,
    newCustomerId,
    engine,
    openWorker,
  }) => {
    const add = async (count: number, seed: number) => {
      const purchases = awkwardPurchase([newCustomerId, otherCustomer]);
      for (const values of fc.sample(purchases, { numRuns: count, seed })) {
        await addPurchase(pool, id, values);
      }
    };
    const otherCustomer = await addCustomer(pool, id);
    const worker = await openWorker({ maxPurchasesWithoutBase: 0 });
    const postgres = createPostgresEngine(pool);
    for (let round = 0; round < 4; round += 1) {
      await add(60, round);
      // Each takes the values of another purchase, so others match the filters.
      await pool.query(
        `update purchases set (customer_id, ${others}) = (
           select customer_id, ${others} from purchases as other
           where other.organization_id = $1 and other.id <> purchases.id
           order by hashint8(other.id + $2 + purchases.id) limit 1)
         where organization_id = $1 and id % 3 = $2 % 3`,
        [id, round],
      );
      await pool.query('delete from purchases where organization_id = $1 and id % 10 = $2', [
        id,
        round,
      ]);
      await worker.once([id]);
      await untilShown(engine, directory, id);
      const { rows } = await pool.query<{ id: bigint }>(
        'select generate_series(min(id), max(id)) as id from purchases where organization_id = $1',
        [id],
      );
      for (const { id: purchase } of rows) {
        const { result } = await engine.get(id, purchase);
        expect(result).toEqual((await postgres.get(id, purchase)).result);
      }
      for (const filters of everyFilter(newCustomerId)) {
        const query = { filters, limit: 20 };
        const { result } = await engine.list(id, query);
        expect(result, String(Object.entries(filters))).toEqual(
          (await postgres.list(id, query)).result,
        );
      }
    }
  },
);

/** All but the columns of the primary key and of the organization. */
const others = purchaseColumns
  .map(({ name }) => name)
  .filter((name) => name !== 'id' && name !== 'customer_id')
  .join(', ');
