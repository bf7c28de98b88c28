import sql, { raw } from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import type { Load } from '../../src/engines/clickhouse/generation.ts';
import { feedPartition, table } from '../../src/engines/clickhouse/schema.ts';
import { linesById } from '../../src/purchase-store/format/log.ts';
import type { Watermark } from '../capture/watermark.ts';
import type { ChangeGap } from '../tick/store.ts';
import type { LoadChanges } from './change-rows.ts';
import { dropPartition, readPartitions } from './clean-up.ts';
import { newFeed } from './identifiers.ts';
import { insertRows } from './insert.ts';

/** The changes between what is published and the load that replaces it. */
export type FeedGap = ChangeGap & {
  /** The ids of changed purchases, as text. */
  readonly ids: Set<string>;
  /** The writer of a batch with further changes; null if there is none. */
  readonly writer: string | null;
};

export function createGap(until: Watermark | null, writer: string | null): FeedGap {
  const gap: FeedGap = {
    ...{ until, writer, ids: new Set(), isComplete: false },
    append({ lines }) {
      for (const [id] of linesById(lines)) gap.ids.add(id);
    },
  };
  return gap;
}

/** A compaction changes no purchase, so the feed has no gap. */
export const createEmptyGap = (): FeedGap => ({ ...createGap(null, null), isComplete: true });

const columns = ['organization_id', 'number', 'id'];

/**
 * Inserts the rows of `purchase_feed`. The number of a row is higher than `changesUntil` of all that was
 * published before its change. A row whose change is not published does no harm: readers take it for a
 * change, and read the purchase as it is.
 */
export function createFeed(clickhouse: ClickHouse, retentionMs: number) {
  const retention = BigInt(retentionMs) * 1000n;
  let until = 0n;
  let since = 0n;

  const nextNumber = (): bigint => {
    until += 1n;
    return until;
  };

  const insert = async (
    number: bigint,
    changes: readonly (readonly [bigint, Iterable<string>])[],
  ) => {
    let rows = '';
    for (const [organizationId, ids] of changes) {
      for (const id of ids) rows += `${organizationId}\t${number}\t${id}\n`;
    }
    if (rows !== '') await insertRows(clickhouse, 'purchase_feed', columns, Buffer.from(rows));
  };

  const insertGap = async (organizationId: bigint, number: bigint, { ids, writer }: FeedGap) => {
    await insert(number, [[organizationId, ids]]);
    if (writer === null) return;
    await clickhouse.run(sql`
      insert into ${table.purchase_feed} (${raw(columns.join(', '))})
      select distinct organization_id, ${number}, id from ${table.purchase_change}
      where organization_id = ${organizationId} and writer = ${writer}`);
  };

  return {
    /** Numbers of this worker are higher than `highest`. Those below `removed` may have been removed. */
    begin(highest: bigint, removed: bigint): void {
      until = highest;
      since = removed;
    },

    append: (changes: readonly LoadChanges[]): Promise<void> =>
      insert(
        nextNumber(),
        changes.map(({ organizationId, lines }) => [
          organizationId,
          new Map(linesById(lines)).keys(),
        ]),
      ),

    /** The feed of a load that will replace `before`: the same one, if the changes between them are known. */
    async replace(
      organizationId: bigint,
      before: Pick<Load, 'source' | 'feed'> | undefined,
      source: string,
      gap: FeedGap,
    ): Promise<Pick<Load, 'feed' | 'changesUntil'>> {
      const number = nextNumber();
      if (before?.source !== source || !gap.isComplete) {
        return { feed: newFeed(), changesUntil: number };
      }
      await insertGap(organizationId, number, gap);
      return { feed: before.feed, changesUntil: number };
    },

    /** What a tick with all changes up to now states. Numbers follow `asOf`, so that they have an age. */
    publish(asOf: bigint) {
      if (asOf > until) until = asOf;
      if (until - retention > since) since = until - retention;
      return { changesUntil: until, changesSince: since };
    },

    /** Removes days with numbers below `publishedSince` only. */
    async removeOld(publishedSince: bigint): Promise<void> {
      for (const partition of await readPartitions(clickhouse, 'purchase_feed')) {
        const end = (BigInt(partition) + 1n) * BigInt(feedPartition);
        if (end <= publishedSince) {
          await dropPartition(clickhouse, 'purchase_feed', BigInt(partition));
        }
      }
    },
  };
}
