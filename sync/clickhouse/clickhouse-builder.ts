import sql from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import {
  type GenerationRows,
  isOfWriters,
  type WriterBatches,
} from '../../src/engines/clickhouse/relations.ts';
import { buildWriter } from '../../src/engines/clickhouse/schema.ts';
import type { Connection, Database } from '../../src/postgres/connection/pool.ts';
import type { Builder, BuildOptions } from '../builds/builder.ts';
import { streamChanges } from '../capture/changed-purchases.ts';
import { readSince } from '../capture/missing-changes.ts';
import type { Watermark } from '../capture/watermark.ts';
import type { Organization } from '../organization.ts';
import type { Prepared } from '../tick/store.ts';
import { requireEqual, requireTotals } from '../verification/verify.ts';
import { type ChangeBatch, copyChanges, insertCurrent, insertSuperseded } from './change-rows.ts';
import { dropLoad } from './clean-up.ts';
import type { ClickHouseStore } from './clickhouse-store.ts';
import { contentOf } from './content.ts';
import { createEmptyGap, createGap, type FeedGap } from './feed.ts';
import { newLoad, newWriter } from './identifiers.ts';
import { loadIntoClickHouse } from './load-purchases.ts';
import { type LoadDescription, mergeLoad } from './merge-load.ts';
import { newestPurchases } from './newest-purchases.ts';

type ClickHouseBuilderOptions = {
  readonly database: Database;
  readonly clickhouse: ClickHouse;
};

/** Numbers before all ticks: for the changes during a load, and for those at its publication. */
const [afterLoad, atPublication] = [-1, 0];

export function createClickHouseBuilder(
  store: ClickHouseStore,
  { database, clickhouse }: ClickHouseBuilderOptions,
): Builder {
  const { unfinished } = store;

  /** Does nothing after the load was published. */
  const discard = async (organizationId: bigint, loadId: string): Promise<void> => {
    unfinished.delete(loadId);
    if (store.rowsOf(organizationId)?.loadId !== loadId) await dropLoad(clickhouse, loadId);
  };

  const withNewLoad = async <Result>(
    { id }: Organization,
    work: (loadId: string) => Promise<Result>,
  ): Promise<Result> => {
    const loadId = newLoad(id);
    unfinished.add(loadId);
    try {
      return await work(loadId);
    } catch (error) {
      await discard(id, loadId).catch(() => {});
      throw error;
    }
  };

  const publish = (
    { id, source }: Organization,
    load: LoadDescription,
    tick: number,
    watermark: Watermark,
    changes: number,
    gap: FeedGap,
  ): Promise<void> => {
    const { asOf, snapshot, token, fingerprint } = watermark;
    const published = { tick, asOf, snapshot, token, fingerprint };
    return store.replace({ ...load, ...published, organizationId: id, source }, changes, gap);
  };

  const prepare = (
    organization: Organization,
    load: LoadDescription,
    since: Watermark,
    earlierChanges: number,
    gap: FeedGap,
  ): Prepared => {
    const { id, source } = organization;
    const { loadId } = load;
    const batch = { loadId, writer: buildWriter, tick: atPublication };
    let changes = 0;
    return {
      organizationId: id,
      source,
      since,
      gap,
      async append({ lines, records }) {
        await insertCurrent(clickhouse, batch, [{ organizationId: id, loadId, lines }]);
        changes += records;
      },
      async publish(tick, watermark) {
        const loaded = [{ writer: buildWriter, last: BigInt(afterLoad) }];
        if (changes > 0) await insertSuperseded(clickhouse, batch, loaded);
        await publish(organization, load, tick, watermark, earlierChanges + changes, gap);
      },
      discard: () => discard(id, loadId),
    };
  };

  /** Adds the changes since a snapshot to a batch. Returns the snapshot up to which the batch has them. */
  const appendChanges = async (
    rows: GenerationRows,
    batch: ChangeBatch,
    since: Watermark,
    { signal, onRetain }: BuildOptions,
    check: (connection: Connection) => Promise<void> = async () => {},
  ): Promise<{ readonly since: Watermark; readonly records: number }> => {
    onRetain(since.snapshot);
    let count = 0;
    const { watermark } = await readSince(database, since, async (connection) => {
      const changes = streamChanges(connection, [rows.organizationId], since.snapshot);
      for await (const [, { lines, records }] of changes) {
        await insertCurrent(clickhouse, batch, [{ ...rows, lines }], signal);
        count += records;
      }
      if (count > 0) await insertSuperseded(clickhouse, batch, rows.writers, signal);
      await check(connection);
    });
    return { since: watermark, records: count };
  };

  const requireSameTotals = async (connection: Connection, rows: GenerationRows): Promise<void> => {
    const [loaded] = await clickhouse.query(sql`
      select concat(toString(count()), ' worth ', toString(sum(toInt128(cents))))
      from ${newestPurchases(rows, sql`purchase_value_in_cents as cents`)}`);
    await requireTotals(connection, rows.organizationId, loaded?.[0]);
  };

  const publishedRows = ({ id }: Organization, tick: number): GenerationRows => {
    const rows = store.rowsOf(id);
    if (rows === null) throw new Error('nothing is published');
    const until = ({ writer, last }: WriterBatches) => ({
      writer,
      last: last < tick ? last : BigInt(tick),
    });
    return { ...rows, writers: rows.writers.map(until) };
  };

  return {
    groupLoads: async (organizations) => organizations.map((each) => [each]),

    async load([organization], build) {
      if (organization === undefined) return [];
      const { id } = organization;
      return withNewLoad(organization, async (loadId) => {
        const options = { database, clickhouse, organizationId: id, loadId, build };
        const { since: loadedAt, ...load } = await loadIntoClickHouse(options);
        const batch = { loadId, writer: buildWriter, tick: afterLoad };
        const rows = { organizationId: id, loadId, writers: [] };
        const all = { ...rows, writers: [{ writer: buildWriter, last: BigInt(afterLoad) }] };
        const { since, records } = await appendChanges(rows, batch, loadedAt, build, (connection) =>
          requireSameTotals(connection, all),
        );
        if (store.storedOf(id) !== null) {
          const content = contentOf(clickhouse, all, { ...since, name: loadId });
          await requireEqual(content, { organizationId: id, database, signal: build.signal });
        }
        return [prepare(organization, load, since, records, createGap(null, null))];
      });
    },

    async catchUp(organization, tick, build) {
      const { watermark } = organization;
      if (watermark === null) throw new Error('nothing is published');
      const rows = publishedRows(organization, tick);
      const batch = { writer: newWriter(), tick: tick + 1 };
      // The rows of this batch are read until the load is published.
      unfinished.add(batch.writer);
      const release = () => unfinished.delete(batch.writer);
      return withNewLoad(organization, async (loadId) => {
        const { since } = await appendChanges(rows, batch, watermark, build);
        const writers = [...rows.writers, { writer: batch.writer, last: BigInt(batch.tick) }];
        const merged = await mergeLoad(clickhouse, { ...rows, writers }, loadId, build.signal);
        const prepared = prepare(organization, merged, since, 0, createGap(since, batch.writer));
        return {
          ...prepared,
          discard: () => prepared.discard().finally(release),
        };
      }).catch((error) => {
        release();
        throw error;
      });
    },

    async compact(organization, publishedTick, { signal }) {
      const { id } = organization;
      const tick = publishedTick();
      const rows = publishedRows(organization, tick);
      const before = store.sizeOf(id)?.changes ?? 0;
      return withNewLoad(organization, async (loadId) => {
        const merged = await mergeLoad(clickhouse, rows, loadId, signal);
        return {
          async publish(published, watermark) {
            const current = publishedRows(organization, published);
            if (current.loadId !== rows.loadId) {
              throw new Error('another load was published during the compaction');
            }
            const isLater = sql`organization_id = ${id} and load_id = ${rows.loadId}
              and ${isOfWriters(current.writers)} and tick > ${BigInt(tick)}`;
            const to = sql`${loadId} as load_id, ${buildWriter} as writer`;
            await copyChanges(clickhouse, isLater, to);
            const changes = (store.sizeOf(id)?.changes ?? 0) - before;
            await publish(organization, merged, published, watermark, changes, createEmptyGap());
          },
          discard: () => discard(id, loadId),
        };
      });
    },
  };
}
