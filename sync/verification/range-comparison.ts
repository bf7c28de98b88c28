import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { PurchasePlace } from '../../src/domain/purchase-query.ts';
import { type Database, withSnapshot } from '../../src/postgres/connection/pool.ts';
import { whyMissingIn } from '../capture/missing-changes.ts';
import { stream } from '../capture/row-stream.ts';
import { takeSnapshot } from '../capture/snapshot.ts';
import {
  changedSince,
  checksumInPostgres,
  placeInPostgres,
  rowHashesInPostgres,
  type UnchangedPurchases,
} from './checksums.ts';
import {
  type Checksum,
  IncomparableError,
  type PublishedContent,
  type PublishedContents,
  type RowHash,
} from './published-content.ts';
import type { PurchaseRange } from './purchase-range.ts';

export type ComparisonOptions = {
  readonly organizationId: bigint;
  readonly database: Database;
  readonly contents: Pick<PublishedContents, 'newest'>;
  /** The maximum wait for a generation whose later changes are in the change log. */
  readonly maxWaitMs: number;
  readonly signal: AbortSignal;
};

export type ComparedRange = {
  readonly range: PurchaseRange;
  readonly content: PublishedContent;
  readonly published: Checksum;
  readonly postgres: Checksum;
  /** Purchases of all ranges that are excluded because they changed since the snapshot. */
  readonly changed: number;
  /** When the comparison began, after the wait for a comparable generation; monotonic. */
  readonly startedAt: number;
};

/** Compares the checksums of the first `rows` purchases after a place. */
export async function compareRange(
  options: ComparisonOptions,
  after: PurchasePlace | null,
  rows: number,
): Promise<ComparedRange> {
  const { content, result, startedAt } = await readUnchanged(
    options,
    async (connection, unchanged) => {
      const next = await connection.query<PurchasePlace>(
        placeInPostgres({ after, until: null }, options.organizationId, rows),
      );
      const range = { after, until: next.rows[0] ?? null };
      const sums = await connection.query<Record<'count' | 'changed', bigint> & { sum: string }>(
        checksumInPostgres(range, unchanged),
      );
      return { range, ...(sums.rows[0] as (typeof sums.rows)[number]) };
    },
  );
  const { range, count, sum, changed } = result;
  return {
    range,
    content,
    published: await content.checksum(range),
    postgres: { count: Number(count), sum: BigInt(sum) },
    changed: Number(changed),
    startedAt,
  };
}

export async function readRowHashes(
  options: ComparisonOptions,
  range: PurchaseRange,
): Promise<Record<'published' | 'postgres', readonly RowHash[]>> {
  const { content, result } = await readUnchanged(options, async (connection, unchanged) => {
    const { rows } = await connection.query<{ id: bigint; hash: bigint }>(
      rowHashesInPostgres(range, unchanged),
    );
    return rows.map(({ id, hash }) => [id, hash] as const);
  });
  return { published: await content.rowHashes(range), postgres: result };
}

/**
 * Reads Postgres while a worker runs. The transaction sees the same purchases as the snapshot of the
 * newest generation, except those in the change log. These are excluded on both sides. Each call uses
 * the newest generation and its own short transaction, so the change log need not reach back further.
 */
async function readUnchanged<Result>(
  options: ComparisonOptions,
  read: (connection: pg.ClientBase, unchanged: UnchangedPurchases) => Promise<Result>,
): Promise<{ content: PublishedContent; result: Result; startedAt: number }> {
  const { organizationId, database, contents, maxWaitMs, signal } = options;
  const deadline = Date.now() + maxWaitMs;
  for (let pauseMs = 100; ; pauseMs *= 2) {
    const startedAt = performance.now();
    const content = await contents.newest();
    if (content === null) throw new IncomparableError('nothing is published yet', false);
    const unchanged = { organizationId, since: content.generation.snapshot };
    const found = await withSnapshot(database, async (connection) => {
      const reason = await whyNotComparable(connection, content);
      if (reason !== null) return reason;
      await content.exclude(changedIds(connection, unchanged));
      return { content, result: await read(connection, unchanged), startedAt };
    });
    if (typeof found !== 'string') return found;
    if (Date.now() + pauseMs > deadline) {
      throw new IncomparableError(`the published generation cannot be compared: ${found}`);
    }
    // The worker has pruned the log and publishes soon, or rebuilds the file.
    await sleep(pauseMs, undefined, { signal });
  }
}

/** The reason why the log lacks changes between the generation's snapshot and the transaction's. */
async function whyNotComparable(
  connection: pg.ClientBase,
  { generation }: PublishedContent,
): Promise<string | null> {
  const now = await takeSnapshot(connection);
  // A background task uses one core, and compiles no part. The log's statistics may be old: a
  // nested loop planned for a few rows would not end with a million.
  await connection.query(`
    set local max_parallel_workers_per_gather = 0;
    set local jit = off;
    set local enable_nestloop = off`);
  return whyMissingIn(connection, generation, now);
}

async function* changedIds(
  connection: pg.ClientBase,
  unchanged: UnchangedPurchases,
): AsyncGenerator<bigint> {
  for await (const [id] of stream(connection, changedSince(unchanged))) yield id as bigint;
}
