import { createWriteStream } from 'node:fs';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import sql from 'sql-template-tag';
import { formatInstant } from '../../src/domain/instant.ts';
import { type PurchaseColumnKind, purchaseColumns } from '../../src/domain/purchase.ts';
import { microsecondsOf } from '../../src/postgres/instants.ts';
import { type Database, withSnapshot } from '../../src/postgres/pool.ts';
import { takeSnapshot } from '../capture/snapshot.ts';
import type { PurchasePosition } from '../capture/watermark.ts';

/** Rows that were copied to a file. `until` is the position of the last row, null if no rows follow. */
export type CopiedChunk = {
  readonly rows: number;
  readonly bytes: number;
  readonly until: PurchasePosition | null;
};

/** A chunk exceeds `maxBytes`. */
export class ChunkTooLargeError extends Error {}

export type ChunkLimits = {
  readonly maxBytes: number;
  /** Called before each part is written, with its bytes. If it rejects, the copy rejects. */
  readonly beforeWriting: (bytes: number) => Promise<void>;
};

// COPY takes no parameters, so the values are settings of the transaction.
const purchasesAfter = `
  from purchases
  where organization_id = current_setting('sync.organization_id')::bigint
    and (created_at, id)
      > (current_setting('sync.after_created_at')::timestamptz, current_setting('sync.after_id')::bigint)`;
const lastOfChunk = `
  select ${microsecondsOf('created_at')} as created_at, id ${purchasesAfter}
  order by purchases.created_at, id
  offset current_setting('sync.rows')::bigint - 1 limit 1`;

// DuckDB reads a timestamp in UTC without a time zone.
const columns = purchaseColumns.map(({ name, kind }: { name: string; kind: PurchaseColumnKind }) =>
  kind === 'instant' ? `${name} at time zone 'UTC'` : name,
);
const copyChunk = `
  copy (
    select ${columns.join(', ')} ${purchasesAfter}
      and (created_at, id)
        <= (current_setting('sync.until_created_at')::timestamptz, current_setting('sync.until_id')::bigint)
    order by purchases.created_at, id
  ) to stdout (format csv)`;

/**
 * Writes the next `rows` purchases after a position to a CSV file, in the order of creation.
 * Each chunk has its own transaction, because a long one holds back every vacuum. Rejects if
 * the signal is aborted, and with ChunkTooLargeError if the file would exceed its limit.
 */
export async function copyPurchases(
  database: Database,
  from: {
    readonly organizationId: bigint;
    readonly after: PurchasePosition | null;
    readonly rows: number;
  },
  file: string,
  limits: ChunkLimits,
  signal: AbortSignal,
): Promise<CopiedChunk> {
  const { after, rows } = from;
  const { copy, until } = await withSnapshot(database, async (connection) => {
    await takeSnapshot(connection, from.organizationId);
    await connection.query(`set local datestyle = 'ISO'`);
    await configure(connection, {
      organization_id: String(from.organizationId),
      rows: String(rows),
      after_created_at: after === null ? '-infinity' : formatInstant(after.createdAt),
      after_id: String(after?.id ?? 0n),
    });
    const last = await connection.query<{ created_at: bigint; id: bigint }>(lastOfChunk);
    const [end] = last.rows;
    await configure(connection, {
      until_created_at: end === undefined ? 'infinity' : formatInstant(end.created_at),
      until_id: String(end?.id ?? 0n),
    });
    return {
      copy: await drain(connection, file, limits, signal),
      until: end === undefined ? null : { createdAt: end.created_at, id: end.id },
    };
  });
  // COPY reports the number of rows after the last row, so it is read after COMMIT.
  return { rows: copy.rows.rowCount, bytes: copy.bytes, until };
}

async function configure(
  connection: pg.ClientBase,
  settings: Readonly<Record<string, string>>,
): Promise<void> {
  const names = Object.keys(settings).map((name) => `sync.${name}`);
  await connection.query(sql`
    select set_config(name, value, true)
    from unnest(${names}::text[], ${Object.values(settings)}::text[]) as setting (name, value)`);
}

/** Writes the output of COPY to a file. */
async function drain(
  connection: pg.ClientBase,
  file: string,
  { maxBytes, beforeWriting }: ChunkLimits,
  signal: AbortSignal,
): Promise<{ readonly rows: { readonly rowCount: number }; readonly bytes: number }> {
  const rows = connection.query(copyTo(copyChunk, { highWaterMark: partBytes }));
  let bytes = 0;
  let allowed = 0;
  const limit = new Transform({
    highWaterMark: partBytes,
    transform(part: Buffer, _encoding, callback) {
      bytes += part.length;
      allowed -= part.length;
      if (bytes > maxBytes) callback(new ChunkTooLargeError('the chunk takes too many bytes'));
      else if (allowed >= 0) callback(null, part);
      else {
        allowed = Math.max(checkedBytes, part.length) - part.length;
        beforeWriting(allowed + part.length).then(() => callback(null, part), callback);
      }
    },
  });
  try {
    const output = createWriteStream(file, { highWaterMark: partBytes });
    await pipeline(rows, limit, output, { signal });
  } catch (error) {
    // The connection still receives rows of COPY, so it cannot be used again.
    void (connection as pg.Client).end();
    throw error;
  }
  return { rows, bytes };
}

const partBytes = 2 ** 20;
/** Bytes between two calls of `beforeWriting`. */
const checkedBytes = 8 * 2 ** 20;
