import { writeFile } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { formatInstant, parseInstant } from '../../../src/domain/instant.ts';
import { type PurchaseColumn, purchaseColumns } from '../../../src/domain/purchase.ts';
import type { PurchasePlace } from '../../../src/domain/purchase-query.ts';
import { type Database, withSnapshot } from '../../../src/postgres/connection/pool.ts';
import { setLocal } from '../../capture/changed-purchases.ts';
import { takeSnapshot } from '../../capture/snapshot.ts';

/** Rows that were copied to a file. `until` is the place of the last row, null if no rows follow. */
export type CopiedChunk = {
  readonly rows: number;
  readonly bytes: number;
  readonly until: PurchasePlace | null;
};

/** A chunk exceeds `maxBytes`. */
export class ChunkTooLargeError extends Error {}

type ChunkLimits = {
  readonly maxBytes: number;
  /** Called before each part is written, with its bytes. If it throws, the copy rejects. */
  readonly beforeWriting: (bytes: number) => void;
};

/** The columns of the file. The place is last in each line, where no text can be mistaken for it. */
export const copiedColumns: readonly PurchaseColumn[] = [
  ...purchaseColumns.filter(({ name }) => name !== 'id' && name !== 'created_at'),
  ...['id', 'created_at'].map(
    (name) => purchaseColumns.find((column) => column.name === name) as PurchaseColumn,
  ),
];

// DuckDB reads a timestamp in UTC without a time zone. Formatting CSV takes Postgres a third longer than its own format.
const columns = copiedColumns.map(({ name, kind }) =>
  kind === 'instant' ? `${name} at time zone 'UTC'` : name,
);
// COPY takes no parameters, so the values are settings of the transaction.
const copyChunk = `
  copy (
    select ${columns.join(', ')}
    from purchases
    where organization_id = current_setting('sync.organization_id')::bigint
      and (created_at, id)
        > (current_setting('sync.after_created_at')::timestamptz, current_setting('sync.after_id')::bigint)
    order by purchases.created_at, id
    limit current_setting('sync.rows')::bigint
  ) to stdout`;

/**
 * Writes the next `rows` purchases after a place to a file, in the text format of COPY and in the order of creation.
 * Each chunk has its own transaction, because a long one holds back every vacuum. Rejects if
 * the signal is aborted, and with ChunkTooLargeError if the file would exceed its limit.
 */
export async function copyPurchases(
  database: Database,
  from: {
    readonly organizationId: bigint;
    readonly after: PurchasePlace | null;
    readonly rows: number;
  },
  file: string,
  limits: ChunkLimits,
  signal: AbortSignal,
): Promise<CopiedChunk> {
  const { after, rows } = from;
  const copy = await withSnapshot(database, async (connection) => {
    await takeSnapshot(connection);
    await setLocal(connection, {
      organization_id: String(from.organizationId),
      rows: String(rows),
      after_created_at: after === null ? '-infinity' : formatInstant(after.createdAt),
      after_id: String(after?.id ?? 0n),
    });
    return drain(connection, file, limits, signal);
  });
  // COPY reports the number of rows after the last row, so it is read after COMMIT.
  const { rowCount } = copy.rows;
  return {
    rows: rowCount,
    bytes: copy.bytes,
    until: rowCount < rows ? null : placeAtEnd(copy.tail),
  };
}

/** The place in the last line. Null if its instant is infinite, which DuckDB then rejects. */
function placeAtEnd(tail: string): PurchasePlace | null {
  if (/\t-?infinity\n$/.test(tail)) return null;
  const [, id = '', day, time] = /\t(-?\d+)\t([^\t ]+) ([^\t ]+)\n$/.exec(tail) ?? [];
  const createdAt = parseInstant(`${day}T${time}Z`, 'down');
  if (createdAt === null) throw new Error('the last line of a chunk has no place');
  return { createdAt, id: BigInt(id) };
}

/** Writes the output of COPY to a file. Also returns its last characters. */
async function drain(
  connection: pg.ClientBase,
  path: string,
  { maxBytes, beforeWriting }: ChunkLimits,
  signal: AbortSignal,
): Promise<{
  readonly rows: { readonly rowCount: number };
  readonly bytes: number;
  readonly tail: string;
}> {
  const rows = connection.query(copyTo(copyChunk, { highWaterMark: partBytes }));
  let bytes = 0;
  let tail = '';
  // The output of COPY arrives in pieces of ten kilobytes. Writing each one took more time than receiving it.
  async function* inParts(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    let part: Buffer[] = [];
    let length = 0;
    for await (const piece of pieces) {
      bytes += piece.length;
      if (bytes > maxBytes) throw new ChunkTooLargeError('the chunk takes too many bytes');
      const end = piece.toString('latin1', Math.max(0, piece.length - tailBytes));
      tail = (tail + end).slice(-tailBytes);
      part.push(piece);
      length += piece.length;
      if (length < partBytes) continue;
      beforeWriting(length);
      yield Buffer.concat(part);
      part = [];
      length = 0;
    }
    beforeWriting(length);
    yield Buffer.concat(part);
  }
  try {
    await pipeline(rows, inParts, (parts) => writeFile(path, parts as AsyncIterable<Buffer>), {
      signal,
    });
  } catch (error) {
    // The connection still receives rows of COPY, so it cannot be used again.
    void (connection as pg.Client).end();
    throw error;
  }
  return { rows, bytes, tail };
}

/** An id and an instant take fewer characters. */
const tailBytes = 64;
const partBytes = 2 ** 20;
