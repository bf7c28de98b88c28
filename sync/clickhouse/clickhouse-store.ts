import type { Logger } from 'pino';
import sql, { raw } from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { buildBatches, highest } from '../../src/engines/clickhouse/generation.ts';
import {
  type GenerationRows,
  isOfWriters,
  type WriterBatches,
} from '../../src/engines/clickhouse/relations.ts';
import { createTables } from '../../src/engines/clickhouse/schema.ts';
import { type ClickHouseTick, readClickHouseTicks } from '../../src/engines/clickhouse/ticks.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { microsecondsOf } from '../../src/postgres/lists/instants.ts';
import { sendDamageReport } from '../../src/purchase-store/damage/damage-reports.ts';
import type { Shard } from '../../src/purchase-store/ticks/shard.ts';
import type { ChangesRetention } from '../files/log-files.ts';
import {
  findDeleted,
  removeOrganizationFolder,
  removeOrphanedFolders,
} from '../files/unused-files.ts';
import { type Store, type Stored, storedFrom } from '../tick/store.ts';
import { insertCurrent, insertSuperseded, type LoadChanges } from './change-rows.ts';
import {
  createUnusedRemoval,
  type FoundLoads,
  hasLostRows,
  removeOrganization,
} from './clean-up.ts';
import { createFeed, type FeedGap } from './feed.ts';
import { inShard, newWriter } from './identifiers.ts';
import { countLoadChanges, readLoads, renumberLoads, ticksOf } from './published-loads.ts';
import { createPublisher, type NewLoad, type UnnumberedLoad } from './publisher.ts';
import { continueWriters, mergeWriters } from './writers.ts';

export type ClickHouseStore = Store & {
  /**
   * The rows of an organization, perhaps also of a tick that is not published yet; null if nothing is
   * published.
   */
  rowsOf(organizationId: bigint): GenerationRows | null;
  /**
   * Publishes a load that replaces the published one. `changes` is the number of changes that the load
   * already has. The change feed continues if the gap is complete.
   */
  replace(load: NewLoad, changes: number, gap: FeedGap): Promise<void>;
  /** Loads and writers of builds, which are not published yet. */
  readonly unfinished: Set<string>;
};

export type ClickHouseStoreOptions = Pick<ChangesRetention, 'changesRetentionMs'> & {
  readonly database: Database;
  readonly clickhouse: ClickHouse;
  readonly dataDirectory: string;
  readonly shard: Shard;
  readonly log: Logger;
  /** For how long unused rows stay; shorter in tests. */
  readonly graceMs?: number | undefined;
  /** Writers beyond which the rows of earlier ones are copied to one; fewer in tests. */
  readonly maxWriters?: number | undefined;
};

const defaultMaxWriters = 50;

type Published = {
  readonly load: UnnumberedLoad;
  changes: number;
  /** Rows were lost, perhaps also of the change feed. */
  isDamaged?: boolean;
};

/** Publishes in ClickHouse. The data folder has the reports and requests of the worker only. */
export function createClickHouseStore(options: ClickHouseStoreOptions): ClickHouseStore {
  const { database, clickhouse, dataDirectory, shard, log } = options;
  const { maxWriters = defaultMaxWriters } = options;
  const publisher = createPublisher(clickhouse, log);
  const feed = createFeed(clickhouse, options.changesRetentionMs);
  const removeUnused = createUnusedRemoval(clickhouse, shard, options.graceMs);
  const organizations = new Map<bigint, Published>();
  const unfinished = new Set<string>();
  /** The writer of the next batches, and the tick of its last one. */
  let writer = newWriter();
  let last: number | null = null;
  let earlierWriters: readonly WriterBatches[] = [];
  let revision = 0;

  const writers = (): readonly WriterBatches[] =>
    last === null ? earlierWriters : [...earlierWriters, { writer, last: BigInt(last) }];

  const allBatches = () => [buildBatches, ...writers()];

  const begin = async (): Promise<ClickHouseTick[]> => {
    for (const statement of createTables(clickhouse.cluster)) await clickhouse.run(raw(statement));
    const ticks = await readClickHouseTicks(clickhouse);
    const now = await readClock(database);
    await renumberLoads(clickhouse, inShard(shard), now);
    const loads = await readLoads(clickhouse, inShard(shard));
    const published = [{ number: now, changesUntil: now }, ...ticks, ...loads];
    publisher.begin(highest(published, 'number'));
    feed.begin(highest(published, 'changesUntil'), highest(ticks, 'changesSince'));
    earlierWriters = await continueWriters(clickhouse, shard, ticksOf(loads, ticks));
    const counts = await countLoadChanges(clickhouse, inShard(shard), [
      buildBatches,
      ...earlierWriters,
    ]);
    organizations.clear();
    for (const load of loads) {
      const changes = counts.get(load.loadId) ?? 0;
      organizations.set(load.organizationId, { load, changes });
    }
    return ticks;
  };

  /** Rows of a failed insert may still arrive: nothing will name them. */
  const changeWriter = (): void => {
    earlierWriters = writers();
    writer = newWriter();
    last = null;
    revision += 1;
  };

  /** The loads and writers whose rows this worker uses. */
  const usedNames = (): string[] => [
    ...[...organizations.values()].map(({ load }) => load.loadId),
    ...earlierWriters.map((each) => each.writer),
    writer,
    ...unfinished,
  ];

  /** The loads that were inserted, with the number of their changes. */
  const publishedLoads = () =>
    [...organizations.values()]
      .filter(({ load }) => !publisher.isPending(load.organizationId))
      .map((each) => ({ ...each }));

  /** The worker then loads these organizations again. */
  const reportLost = (published: readonly Readonly<Published>[], found: FoundLoads): void => {
    for (const { load, changes } of published) {
      const organization = organizations.get(load.organizationId);
      // Another load may have replaced it meanwhile.
      if (organization?.load !== load || !hasLostRows(load, changes, found)) continue;
      organization.isDamaged = true;
      sendDamageReport(dataDirectory, load.organizationId, load.loadId);
    }
  };

  const storedOf = (id: bigint): Stored | null => {
    const load = organizations.get(id)?.load;
    return load === undefined ? null : storedFrom(load);
  };

  return {
    unfinished,
    readTicks: begin,
    // Readers take no batches that the tick does not name.
    recover: async () => {},
    storedOf,

    async append(tick, changes) {
      const failures = new Map<bigint, unknown>();
      const appended: LoadChanges[] = [];
      for (const [id, { lines }] of changes) {
        const loadId = organizations.get(id)?.load.loadId;
        if (loadId === undefined) failures.set(id, new Error('nothing is published'));
        else appended.push({ organizationId: id, loadId, lines });
      }
      if (appended.length === 0) return failures;
      try {
        await Promise.all([
          insertCurrent(clickhouse, { writer, tick }, appended),
          feed.append(appended),
        ]);
        await insertSuperseded(clickhouse, { writer, tick }, allBatches());
      } catch (error) {
        changeWriter();
        throw error;
      }
      last = tick;
      revision += 1;
      for (const [id, { records }] of changes) {
        const organization = organizations.get(id);
        if (organization !== undefined) organization.changes += records;
      }
      return failures;
    },

    publish: (content) =>
      publisher.publishTick(
        { ...content, writers: writers(), ...feed.publish(content.asOf) },
        revision,
      ),

    // ClickHouse confirms an insert when it has the rows.
    sync: publisher.flush,
    isPublished: (id, load) => organizations.get(id)?.load.loadId === load,

    sizeOf(id) {
      const organization = organizations.get(id);
      if (organization === undefined) return null;
      const { load, changes } = organization;
      return { purchases: load.purchases, changes, changeBytes: 0 };
    },

    async remove(id) {
      const removed = organizations.get(id);
      organizations.delete(id);
      await removeOrganizationFolder(dataDirectory, id);
      await removeOrganization(clickhouse, id).catch((error) => {
        // So that `cleanUp` removes it.
        if (removed !== undefined) organizations.set(id, removed);
        throw error;
      });
    },

    async cleanUp(isInUse) {
      await removeOrphanedFolders(database, dataDirectory, shard, isInUse);
      const loads = [...organizations.values()].map(({ load }) => load);
      const unused = loads.filter(({ organizationId }) => !isInUse(organizationId));
      for (const id of await findDeleted(database, unused)) {
        await removeOrganization(clickhouse, id);
        organizations.delete(id);
      }
      const published = publishedLoads();
      reportLost(published, await removeUnused(usedNames));
      await feed.removeOld(publisher.changesSince());
      if (earlierWriters.length <= maxWriters) return;
      const copied = earlierWriters;
      const isCopied = sql`${inShard(shard)} and ${isOfWriters(copied)}`;
      const merged = await mergeWriters(clickhouse, isCopied, copied);
      earlierWriters = [merged, ...earlierWriters.filter((each) => !copied.includes(each))];
      revision += 1;
    },

    rowsOf(id) {
      const load = organizations.get(id)?.load;
      if (load === undefined) return null;
      return { organizationId: id, loadId: load.loadId, writers: allBatches() };
    },

    async replace(load, changes, gap) {
      const { organizationId: id, source } = load;
      const organization = organizations.get(id);
      const before = organization?.isDamaged === true ? undefined : organization?.load;
      const published = { ...load, ...(await feed.replace(id, before, source, gap)) };
      organizations.set(id, { load: published, changes });
      await publisher.publishLoad(published);
    },

    close: () =>
      publisher.flush().then(
        () => {},
        () => {},
      ),
  };
}

/** Postgres's clock, which all workers share; microseconds since 1970. */
async function readClock(database: Database): Promise<bigint> {
  const { rows } = await database.query<{ now: bigint }>(
    `select ${microsecondsOf('clock_timestamp()')} as now`,
  );
  return rows[0]?.now ?? 0n;
}
