import type pg from 'pg';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { type Database, withSnapshot } from '../../src/postgres/pool.ts';
import { streamChanges } from '../capture/changes.ts';
import { whyLogInsufficient } from '../capture/log-sufficiency.ts';
import { confirmSnapshot, takeSnapshot } from '../capture/snapshot.ts';
import type { Watermark } from '../capture/watermark.ts';
import { type Batch, type Written, writeChanges } from './apply-changes.ts';
import type { Content } from './generations.ts';

export type Stores = { readonly database: Database; readonly clickhouse: ClickHouse };

/** The work after the changes, in the same snapshot. `confirm` makes the snapshot durable. */
type Then = (
  source: pg.ClientBase,
  content: Content,
  confirm: () => Promise<Watermark>,
) => Promise<Content>;

/** An updated content, which is not published yet. */
type Update = { readonly content: Content; readonly changes: number };

/**
 * Writes the changes since a content as batches of `writer`. Resolves with the reason if the
 * change log lacks some. Without changes the watermark stays.
 */
export async function bringUpToDate(
  { database, clickhouse }: Stores,
  content: Content,
  writer: string,
  signal: AbortSignal,
  then: Then = async (_source, updated) => updated,
): Promise<Update | string> {
  const { organizationId, snapshot } = content.watermark;
  return withSnapshot(database, async (source) => {
    const now = await takeSnapshot(source, organizationId);
    const reason = await whyLogInsufficient(source, content.watermark, now);
    if (reason !== null) return reason;
    const confirm = () => confirmSnapshot(database, organizationId, now);
    const batch = batchAfter(content, writer);
    const changed = streamChanges(source, organizationId, snapshot);
    try {
      const written = await writeChanges(clickhouse, content, batch, changed, signal);
      const changes = written.purchases;
      const updated =
        changes === 0
          ? content
          : { ...withBatch(content, batch, written), watermark: await confirm() };
      return { content: await then(source, updated, confirm), changes };
    } finally {
      // The connection runs no other statement before the cursor is closed.
      await changed.return(undefined);
    }
  });
}

/** The next batch of a writer after those of a content. Batches of a load ascend over all writers. */
export const batchAfter = ({ batches }: Content, writer: string): Batch => ({
  writer,
  batch: batches.reduce((max, { last }) => (last > max ? last : max), 0n) + 1n,
});

/** A content with a batch that was written. Its currency stays as long as all rows agree. */
export const withBatch = (
  content: Content,
  { writer, batch }: Batch,
  { currencies }: Written,
): Content => ({
  ...content,
  batches: [...content.batches.filter((each) => each.writer !== writer), { writer, last: batch }],
  currency: [...currencies.keys()].every((each) => each === null || each === content.currency)
    ? content.currency
    : null,
  withoutCurrency: content.withoutCurrency + (currencies.get(null) ?? 0n),
});
