import { setTimeout as sleep } from 'node:timers/promises';
import { BIGINT, BOOLEAN, type DuckDBConnection, DuckDBDataChunk } from '@duckdb/node-api';
import type pg from 'pg';
import sql from 'sql-template-tag';
import { type Database, withSnapshot } from '../../src/postgres/pool.ts';
import { layoutVersion } from '../../src/purchase-store/layout.ts';
import { currentPurchases } from '../../src/purchase-store/relations.ts';
import { whyLogInsufficient } from '../capture/log-sufficiency.ts';
import { stream } from '../capture/row-stream.ts';
import { takeSnapshot } from '../capture/snapshot.ts';
import {
  changedSince,
  checksumsInFile,
  checksumsInPostgres,
  rowHashesInFile,
  rowHashesInPostgres,
  type UnchangedPurchases,
} from './checksums.ts';
import type { PublishedFile, PublishedFiles } from './published-file.ts';
import { inFile, inPostgres, type PurchaseRange } from './purchase-range.ts';

/** The published generation cannot be compared with Postgres. */
export class IncomparableError extends Error {
  readonly isPublished: boolean;
  constructor(message: string, isPublished = true) {
    super(message);
    this.isPublished = isPublished;
  }
}

export type Checksum = { readonly count: number; readonly sum: bigint };
export type ComparedRange = {
  readonly range: PurchaseRange;
  readonly published: Checksum;
  readonly postgres: Checksum;
};
export type RowHash = { readonly id: bigint; readonly created: bigint; readonly hash: bigint };

/**
 * Compares an organization's newest published generation with Postgres while a worker runs. A
 * transaction sees the same purchases as the generation's snapshot, except those in the change
 * log. These are excluded on both sides. Each part uses the newest generation and its own short
 * transaction, so the change log need not reach back beyond the published generation.
 */
export type Comparison = {
  /** The generation that the next part uses. */
  newest(): Promise<PublishedFile>;
  /** Compares checksums of `ranges`, which together are the range `whole`. */
  compare(
    whole: PurchaseRange,
    ranges: readonly PurchaseRange[],
  ): Promise<{
    readonly file: PublishedFile;
    readonly compared: readonly ComparedRange[];
    /** Purchases of the range, on either side, that are excluded because they changed. */
    readonly excluded: number;
  }>;
  compareRows(range: PurchaseRange): Promise<{
    readonly published: readonly RowHash[];
    readonly postgres: readonly RowHash[];
  }>;
};

export type ComparisonOptions = {
  readonly organizationId: bigint;
  readonly database: Database;
  readonly files: Pick<PublishedFiles, 'newest'>;
  /** The maximum wait for a generation whose later changes are in the change log. */
  readonly patienceMs: number;
  readonly signal: AbortSignal;
};

export function createComparison(options: ComparisonOptions): Comparison {
  const { organizationId, database } = options;

  /** Reads Postgres in a transaction, and fills the table `changed` for the query of the file. */
  const readPostgres = async <Result>(
    whole: PurchaseRange,
    read: (source: pg.ClientBase, unchanged: UnchangedPurchases) => Promise<Result>,
  ): Promise<{ file: PublishedFile; result: Result }> => {
    const deadline = Date.now() + options.patienceMs;
    for (let pauseMs = 100; ; pauseMs *= 2) {
      const file = await requirePublished(options.files);
      const unchanged = { organizationId, since: file.generation.snapshot };
      const found = await withSnapshot(database, async (source) => {
        const reason = await whyNotComparable(source, organizationId, file);
        if (reason !== null) return reason;
        await collectChanged(source, file.connection, unchanged, whole);
        return { file, result: await read(source, unchanged) };
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
    newest: () => requirePublished(options.files),

    async compare(whole, ranges) {
      const { file, result: postgres } = await readPostgres(whole, async (source, unchanged) => {
        const { rows } = await source.query<{ index: number; count: bigint; sum: string }>(
          checksumsInPostgres(ranges, unchanged),
        );
        return new Map(
          rows.map(({ index, count, sum }) => [index, { count: Number(count), sum: BigInt(sum) }]),
        );
      });
      const published = new Map(
        (await file.query(checksumsInFile(file.catalogs, ranges))).map(([index, count, sum]) => [
          index,
          { count: Number(count), sum: sum as bigint },
        ]),
      );
      const compared = ranges.map((range, index) => ({
        range,
        published: published.get(index) as Checksum,
        postgres: postgres.get(index) as Checksum,
      }));
      return { file, compared, excluded: await countExcluded(file, whole) };
    },

    async compareRows(range) {
      const { file, result: postgres } = await readPostgres(range, async (source, unchanged) => {
        const { rows } = await source.query<RowHash>(rowHashesInPostgres(range, unchanged));
        return rows;
      });
      const rows = await file.query(rowHashesInFile(file.catalogs, range));
      const published = (rows as [bigint, bigint, bigint][]).map(([id, created, hash]) => ({
        id,
        created,
        hash,
      }));
      return { published, postgres };
    },
  };
}

async function requirePublished(files: ComparisonOptions['files']): Promise<PublishedFile> {
  const file = await files.newest();
  if (file === null) throw new IncomparableError('nothing is published yet', false);
  if (file.generation.layoutVersion !== layoutVersion) {
    throw new IncomparableError(
      'another version published the generation, and the worker will load it again',
    );
  }
  return file;
}

/** The reason why the log lacks changes between the generation's snapshot and the transaction's. */
async function whyNotComparable(
  source: pg.ClientBase,
  organizationId: bigint,
  { generation }: PublishedFile,
): Promise<string | null> {
  const now = await takeSnapshot(source, organizationId);
  // A background task uses one core, and compiles no part. The log's statistics may be old: a
  // nested loop planned for a few rows would not end with a million.
  await source.query(`
    set local max_parallel_workers_per_gather = 0;
    set local jit = off;
    set local enable_nestloop = off`);
  return whyLogInsufficient(source, { ...generation, organizationId }, now);
}

/** Fills the table `changed`, and marks the purchases that Postgres has in the range. */
async function collectChanged(
  source: pg.ClientBase,
  connection: DuckDBConnection,
  unchanged: UnchangedPurchases,
  range: PurchaseRange,
): Promise<void> {
  await connection.run(
    'create or replace temp table changed (id bigint not null, in_postgres boolean not null)',
  );
  const types = [BIGINT, BOOLEAN];
  const appender = await connection.createAppender('changed', 'main', 'temp');
  const rows = stream(
    source,
    sql`
      select changed.id, purchases.id is not null
      from (${changedSince(unchanged)}) as changed
      left join purchases on purchases.id = changed.id
        and purchases.organization_id = ${unchanged.organizationId} and ${inPostgres(range)}`,
  );
  try {
    let batch: (bigint | boolean)[][] = [];
    const flush = () => {
      if (batch.length === 0) return;
      const chunk = DuckDBDataChunk.create(types, batch.length);
      chunk.setRows(batch);
      appender.appendDataChunk(chunk);
      batch = [];
    };
    for await (const row of rows) {
      batch.push(row as unknown as (bigint | boolean)[]);
      if (batch.length === 2048) flush();
    }
    flush();
  } finally {
    appender.closeSync();
  }
}

async function countExcluded({ query, catalogs }: PublishedFile, range: PurchaseRange) {
  const [row] = await query(sql`
    select count(*) from changed
    where in_postgres
      or id in (select id from ${currentPurchases(catalogs, inFile(range))})`);
  return Number(row?.[0]);
}
