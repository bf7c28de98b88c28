import sql, { raw } from 'sql-template-tag';
import type { Purchase } from '../../domain/purchase.ts';
import {
  type ChangeFeed,
  type ChangesPage,
  type ChangesQuery,
  NoChangeFeedError,
  readOrWait,
  UnknownFeedPositionError,
} from '../../domain/purchase-changes.ts';
import { createWaitUntilFresh } from '../../domain/wait-until-fresh.ts';
import { createWaiters, type Waiter } from '../../domain/waiters.ts';
import { newestTick } from '../../purchase-store/ticks/published-tick.ts';
import type { QueryQueue } from '../../queue/query-queue.ts';
import type { ClickHouse } from './client.ts';
import type { FindGeneration, LoadGeneration } from './generation.ts';
import { readPurchase } from './list.ts';
import { currentLoadPurchases, listOfIds } from './relations.ts';
import { purchaseNames, table } from './schema.ts';
import { readTicksOnly } from './ticks.ts';

/** The first row of `purchase_feed` that a follower may not have. */
type FeedPosition = { readonly number: bigint; readonly id: bigint };

const pattern = /^([0-9a-f]{12})\.(\d{1,18})\.(\d{1,19})$/;
const maxId = 2n ** 63n - 1n;

const encode = (feed: string, { number, id }: FeedPosition): string => `${feed}.${number}.${id}`;

/** Throws UnknownFeedPositionError if rows after the position are missing, or the generation does not have it. */
function decode(text: string, { feed, changesSince, changesUntil }: LoadGeneration): FeedPosition {
  const [, name, number = 0n, id = 0n] = pattern.exec(text) ?? [];
  const position = { number: BigInt(number), id: BigInt(id) };
  const isKnown =
    name === feed &&
    position.number >= changesSince &&
    position.number <= changesUntil + 1n &&
    position.id <= maxId;
  if (!isKnown) throw new UnknownFeedPositionError();
  return position;
}

const later = (one: FeedPosition, other: FeedPosition): FeedPosition =>
  one.number > other.number || (one.number === other.number && one.id > other.id) ? one : other;

/** Of the time that the feed goes back: the position of a follower without changes moves on in such steps. */
const stepsOfRetention = 64n;

/** Of rows that the generation has all, the position moves on with time, because old ones become unknown. */
function endOf({ changesSince, changesUntil }: LoadGeneration): FeedPosition {
  const step = (changesUntil - changesSince) / stepsOfRetention + 1n;
  return { number: changesUntil - (changesUntil % step), id: 0n };
}

async function readChanges(
  clickhouse: ClickHouse,
  generation: LoadGeneration,
  { after, limit }: ChangesQuery,
  signal: AbortSignal,
): Promise<ChangesPage> {
  const { organizationId, feed, changesUntil, asOf } = generation;
  if (after === null) {
    const next = encode(feed, { number: changesUntil + 1n, id: 0n });
    return { changes: [], hasMore: false, next, asOf };
  }
  const position = decode(after, generation);
  const { number, id } = position;
  const rows = await clickhouse.query(
    sql`
      select number, id from ${table.purchase_feed}
      where organization_id = ${organizationId} and number >= ${number}
        and number <= ${changesUntil} and (number > ${number} or id >= ${id})
      order by number, id limit ${raw(String(limit + 1))}`,
    signal,
  );
  const read = rows
    .slice(0, limit)
    .map(([number, id]) => ({ number: BigInt(number as string), id: BigInt(id as string) }));
  const hasMore = rows.length > limit;
  // The last row of each purchase.
  const ids = [...new Set(read.map((row) => row.id).reverse())].reverse();
  const purchases = await readPurchases(clickhouse, generation, ids, signal);
  const last = read.at(-1);
  const seen = last === undefined ? position : { number: last.number, id: last.id + 1n };
  return {
    changes: ids.map((each) => ({ id: each, purchase: purchases.get(each) ?? null })),
    hasMore,
    next: encode(feed, hasMore ? seen : later(seen, endOf(generation))),
    asOf,
  };
}

/** Those of the generation. */
async function readPurchases(
  clickhouse: ClickHouse,
  generation: LoadGeneration,
  ids: readonly bigint[],
  signal: AbortSignal,
): Promise<Map<bigint, Purchase>> {
  if (ids.length === 0) return new Map();
  const condition = sql`and id in ${listOfIds(ids)}`;
  const statement = currentLoadPurchases(generation, {}, purchaseNames, { condition });
  const purchases = (await clickhouse.query(statement, signal)).map(readPurchase);
  return new Map(purchases.map((purchase) => [purchase.id, purchase]));
}

/** `from`: the number from which rows are new. */
type Wanted = { readonly organizationId: bigint; from: bigint };

const intervalMs = 100;
/** Of one statement, whose URL has their ids. */
const maxSwept = 2_000;

/** Wakes the requests whose organization has published rows. */
async function sweep(clickhouse: ClickHouse, waiters: ReadonlySet<Waiter<Wanted>>): Promise<void> {
  const ticks = await readTicksOnly(clickhouse);
  const due: { readonly waiter: Waiter<Wanted>; readonly until: bigint }[] = [];
  for (const waiter of waiters) {
    const until = newestTick(ticks, waiter.organizationId)?.changesUntil ?? 0n;
    if (until >= waiter.from) due.push({ waiter, until });
    if (due.length === maxSwept) break;
  }
  if (due.length === 0) return;
  const froms = due.map(({ waiter }) => waiter.from);
  const from = froms.reduce((min, each) => (each < min ? each : min));
  const ids = new Set(due.map(({ waiter }) => waiter.organizationId));
  const rows = await clickhouse.query(sql`
    select organization_id, max(number) from ${table.purchase_feed}
    where organization_id in ${listOfIds(ids)} and number >= ${from} group by organization_id`);
  const newest = new Map(
    rows.map(([id, number]) => [BigInt(id as string), BigInt(number as string)]),
  );
  for (const { waiter, until } of due) {
    if ((newest.get(waiter.organizationId) ?? 0n) >= waiter.from) waiter.wake();
    else waiter.from = until + 1n;
  }
}

type FeedOptions = {
  readonly clickhouse: ClickHouse;
  readonly queries: QueryQueue;
  readonly find: FindGeneration;
};

/** The change feed of `purchase_feed`. It has ids only: a page shows the purchases of the newest generation. */
export function createChangeFeed({ clickhouse, queries, find }: FeedOptions): ChangeFeed {
  const waiters = createWaiters<Wanted>(intervalMs, (all) => sweep(clickhouse, all));

  const published = async (organizationId: bigint, source: string | null, signal?: AbortSignal) => {
    const generation = await find(organizationId, source, signal);
    if (generation === null) throw new NoChangeFeedError();
    return generation;
  };

  return {
    read: (organizationId, source, query, waiting = {}) =>
      readOrWait(waiters, query, waiting, () =>
        queries.run({ organizationId }, waiting.signal, async (signal) => {
          const generation = await published(organizationId, source, signal);
          const page = await readChanges(clickhouse, generation, query, signal);
          return { page, wanted: { organizationId, from: generation.changesUntil + 1n } };
        }),
      ),

    freshness: async (organizationId, source) => (await published(organizationId, source)).asOf,

    waitUntilFresh: createWaitUntilFresh(async (...wanted) => (await published(...wanted)).asOf),

    close: waiters.close,
  };
}
