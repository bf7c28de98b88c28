import PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { type Load, loadColumns, loadRow } from '../../src/engines/clickhouse/generation.ts';
import type { ClickHouseTick } from '../../src/engines/clickhouse/ticks.ts';
import { insertRows } from './insert.ts';

/** A tick without the number that the insert adds. */
type Tick = Omit<ClickHouseTick, 'number'>;

/** Ticks with equal keys differ only in the number, the instant, and values derived from the instant. */
type KeyedTick = { readonly tick: Tick; readonly key: string };

/** A load that has no number yet. */
export type UnnumberedLoad = Omit<Load, 'number'>;

/** A load that is in no feed yet. */
export type NewLoad = Omit<UnnumberedLoad, 'feed' | 'changesUntil'>;

/** The pause between inserts of a new instant alone: each insert adds a part, which ClickHouse merges later. */
const instantIntervalMs = 1_000;

/** Inserts the rows that publish loads and ticks. */
export function createPublisher(clickhouse: ClickHouse, log: Logger) {
  const queue = new PQueue({ concurrency: 1 });
  /** Loads that are not inserted for certain. */
  const loads = new Map<bigint, Load>();
  let number = 0n;
  let newest: KeyedTick | null = null;
  /** The instant of a failed insert, which may be visible. */
  let uncertain = 0n;
  let inserted: KeyedTick | null = null;
  /** Monotonic milliseconds, before which no later instant alone is inserted. */
  let instantDueAt = 0;

  const isPending = () => loads.size > 0 || newest?.key !== inserted?.key;

  const insertLoads = async (): Promise<void> => {
    const inserting = [...loads.values()];
    if (inserting.length === 0) return;
    await insertRows(clickhouse, 'generation', loadColumns, inserting.map(loadRow));
    for (const load of inserting) {
      if (loads.get(load.organizationId) === load) loads.delete(load.organizationId);
    }
  };

  const insertAll = (): Promise<void> =>
    queue.add(async () => {
      await insertLoads();
      if (newest === null || newest === inserted) return;
      const inserting = newest;
      number += 1n;
      instantDueAt = performance.now() + instantIntervalMs;
      await insertRows(clickhouse, 'tick', tickColumns, [tickRow(inserting.tick, number)]);
      inserted = inserting;
    });

  return {
    /** `highest` is the number of the newest row. */
    begin(highest: bigint): void {
      number = highest;
    },

    /**
     * Publishes a load in the place of an earlier one. After a failure it is inserted before the next
     * tick, because an insert that failed may have happened nonetheless, or happen later.
     */
    async publishLoad(load: UnnumberedLoad): Promise<void> {
      number += 1n;
      loads.set(load.organizationId, { ...load, number });
      // The next tick includes the organization.
      instantDueAt = 0;
      await queue.add(insertLoads);
    },

    /** Whether the load of an organization is not inserted for certain. */
    isPending: (organizationId: bigint): boolean => loads.has(organizationId),

    /**
     * Publishes a tick. If the insert fails, this resolves nonetheless, because readers may have the tick:
     * the next tick includes all of it. It rejects only if nothing but the instant is later than that of
     * the tick before. `revision` differs if batches were added or writers have changed.
     */
    async publishTick(tick: Tick, revision: number): Promise<void> {
      const key = keyOf(tick, revision);
      const isLaterInstant = key === newest?.key;
      newest = { tick: { ...tick, asOf: tick.asOf > uncertain ? tick.asOf : uncertain }, key };
      // After a failed insert, each call tries again: success means that ClickHouse responds.
      if (!isPending() && uncertain === 0n && performance.now() < instantDueAt) return;
      try {
        await insertAll();
        uncertain = 0n;
      } catch (error) {
        uncertain = newest.tick.asOf;
        if (isLaterInstant) throw error;
        log.warn({ err: error }, 'cannot publish a tick now; the next one includes it');
      }
    },

    /** `changesSince` of the last tick that is inserted for certain. Readers expect no changes with lower numbers. */
    changesSince: (): bigint => inserted?.tick.changesSince ?? 0n,

    /**
     * Resolves when ClickHouse has all that was published, except perhaps later instants. Returns the
     * snapshot of the last tick.
     */
    async flush(): Promise<string> {
      if (isPending()) await insertAll();
      if (inserted === null) throw new Error('no tick is published');
      return inserted.tick.snapshot;
    },
  };
}

const keyOf = ({ snapshot, token, fingerprint, exceptions }: Tick, revision: number): string => {
  const shown = Object.entries(exceptions).map(([id, each]) => [id, String(each.asOf), each.token]);
  return JSON.stringify([snapshot, token, fingerprint, shown, revision]);
};

const tickColumns = [
  'shard_of',
  'shard_number',
  'number',
  'tick',
  'as_of',
  'snapshot',
  'token',
  'fingerprint',
  'database',
  'writers',
  'exceptions',
  'changes_until',
  'changes_since',
];

const tickRow = (tick: Tick, number: bigint) => [
  tick.shard.of,
  tick.shard.number,
  String(number),
  tick.tick,
  String(tick.asOf),
  tick.snapshot,
  tick.token,
  tick.fingerprint,
  tick.database,
  tick.writers.map(({ writer, last }) => ({ writer, last: String(last) })),
  Object.entries(tick.exceptions).map(([id, { asOf, snapshot, token }]) => ({
    organization_id: id,
    as_of: String(asOf),
    snapshot,
    token,
  })),
  String(tick.changesUntil),
  String(tick.changesSince),
];
