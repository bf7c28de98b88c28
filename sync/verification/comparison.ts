import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import sql from 'sql-template-tag';
import { type Database, withSnapshot } from '../../src/postgres/pool.ts';
import { whyLogInsufficient } from '../capture/log-sufficiency.ts';
import { stream } from '../capture/row-stream.ts';
import { takeSnapshot } from '../capture/snapshot.ts';
import {
  changedSince,
  checksumsInPostgres,
  rowHashesInPostgres,
  type UnchangedPurchases,
} from './checksums.ts';
import {
  type ChangedId,
  type Checksum,
  IncomparableError,
  type PublishedContent,
  type PublishedContents,
  type RowHash,
} from './published-content.ts';
import { inPostgres, type PurchaseRange } from './purchase-range.ts';

export type ComparedRange = {
  readonly range: PurchaseRange;
  readonly published: Checksum;
  readonly postgres: Checksum;
};

/**
 * Compares an organization's newest published generation with Postgres while a worker runs. A
 * transaction sees the same purchases as the generation's snapshot, except those in the change
 * log. These are excluded on both sides. Each part uses the newest generation and its own short
 * transaction, so the change log need not reach back beyond the published generation.
 */
export type Comparison = {
  /** The generation that the next part uses. */
  newest(): Promise<PublishedContent>;
  /** Compares checksums of `ranges`, which together are the range `whole`. */
  compare(
    whole: PurchaseRange,
    ranges: readonly PurchaseRange[],
  ): Promise<{
    readonly content: PublishedContent;
    readonly compared: readonly ComparedRange[];
    /** Purchases of the range, on either side, that are excluded because they changed. */
    readonly excluded: number;
    /** When the comparison began, after the wait for a comparable generation; monotonic. */
    readonly startedAt: number;
  }>;
  compareRows(range: PurchaseRange): Promise<{
    readonly published: readonly RowHash[];
    readonly postgres: readonly RowHash[];
  }>;
};

export type ComparisonOptions = {
  readonly organizationId: bigint;
  readonly database: Database;
  readonly contents: Pick<PublishedContents, 'newest'>;
  /** The maximum wait for a generation whose later changes are in the change log. */
  readonly maxWaitMs: number;
  readonly signal: AbortSignal;
};

export function createComparison(options: ComparisonOptions): Comparison {
  const { organizationId, database } = options;

  /** Reads Postgres in a transaction, and excludes the changed purchases from the content. */
  const readPostgres = async <Result>(
    whole: PurchaseRange,
    read: (source: pg.ClientBase, unchanged: UnchangedPurchases) => Promise<Result>,
  ): Promise<{ content: PublishedContent; result: Result; startedAt: number }> => {
    const deadline = Date.now() + options.maxWaitMs;
    for (let pauseMs = 100; ; pauseMs *= 2) {
      const startedAt = performance.now();
      const content = await requirePublished(options.contents);
      const unchanged = { organizationId, since: content.generation.snapshot };
      const found = await withSnapshot(database, async (source) => {
        const reason = await whyNotComparable(source, content);
        if (reason !== null) return reason;
        await content.exclude(changedIds(source, unchanged, whole));
        return { content, result: await read(source, unchanged), startedAt };
      });
      if (typeof found !== 'string') return found;
      if (Date.now() + pauseMs > deadline) {
        throw new IncomparableError(`the published generation cannot be compared: ${found}`);
      }
      // The worker has pruned the log and publishes soon, or rebuilds the file.
      await sleep(pauseMs, undefined, { signal: options.signal });
    }
  };

  return {
    newest: () => requirePublished(options.contents),

    async compare(whole, ranges) {
      const readChecksums = async (source: pg.ClientBase, unchanged: UnchangedPurchases) => {
        const { rows } = await source.query<{ index: number; count: bigint; sum: string }>(
          checksumsInPostgres(ranges, unchanged),
        );
        return new Map(
          rows.map(({ index, count, sum }) => [index, { count: Number(count), sum: BigInt(sum) }]),
        );
      };
      const { content, result: postgres, startedAt } = await readPostgres(whole, readChecksums);
      const published = await content.checksums(ranges);
      const compared = ranges.map((range, index) => ({
        range,
        published: published[index] as Checksum,
        postgres: postgres.get(index) as Checksum,
      }));
      return { content, compared, excluded: await content.countExcluded(whole), startedAt };
    },

    async compareRows(range) {
      const { content, result: postgres } = await readPostgres(range, async (source, unchanged) => {
        const { rows } = await source.query<RowHash>(rowHashesInPostgres(range, unchanged));
        return rows;
      });
      return { published: await content.rowHashes(range), postgres };
    },
  };
}

async function requirePublished(
  contents: ComparisonOptions['contents'],
): Promise<PublishedContent> {
  const content = await contents.newest();
  if (content === null) throw new IncomparableError('nothing is published yet', false);
  return content;
}

/** The reason why the log lacks changes between the generation's snapshot and the transaction's. */
async function whyNotComparable(
  source: pg.ClientBase,
  { generation }: PublishedContent,
): Promise<string | null> {
  const now = await takeSnapshot(source);
  // A background task uses one core, and compiles no part. The log's statistics may be old: a
  // nested loop planned for a few rows would not end with a million.
  await source.query(`
    set local max_parallel_workers_per_gather = 0;
    set local jit = off;
    set local enable_nestloop = off`);
  return whyLogInsufficient(source, generation, now);
}

/** The changed purchases, with whether Postgres has them in the range. */
async function* changedIds(
  source: pg.ClientBase,
  unchanged: UnchangedPurchases,
  range: PurchaseRange,
): AsyncGenerator<ChangedId> {
  const rows = stream(
    source,
    sql`
      select changed.id, purchases.id is not null
      from (${changedSince(unchanged)}) as changed
      left join purchases on purchases.id = changed.id
        and purchases.organization_id = ${unchanged.organizationId} and ${inPostgres(range)}`,
  );
  for await (const row of rows) yield row as unknown as ChangedId;
}
