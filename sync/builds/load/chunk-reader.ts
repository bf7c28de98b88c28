import type { PurchasePosition } from '../../../src/domain/purchase-query.ts';
import type { Database } from '../../../src/postgres/connection/pool.ts';
import { requireSpace } from '../../../src/process/disk-space.ts';
import { OversizedRowError } from '../../describe-failure.ts';
import { ChunkTooLargeError, type CopiedChunk, copyPurchases } from './copy-purchases.ts';

/**
 * The maximum CSV size of a chunk: 240,000 purchases of the usual length. DuckDB joins a chunk
 * with the dictionaries in memory.
 */
export const maxChunkBytes = 96 * 2 ** 20;
/** The maximum if purchases have much text: DuckDB takes several times the bytes of a chunk to sort it. */
const maxLongChunkBytes = 32 * 2 ** 20;

/** Copies an organization's purchases into files, in chunks bounded by rows and by bytes. */
type ChunkReader = {
  /** Rejects if the disk lacks space besides the reserved bytes. */
  read(after: PurchasePosition | null, path: string): Promise<CopiedChunk>;
  /** Keeps `bytes` of the disk free for DuckDB. */
  reserve(bytes: number): void;
};

export function createChunkReader(options: {
  readonly database: Database;
  readonly organizationId: bigint;
  readonly directory: string;
  readonly maxRows: number;
  readonly signal: AbortSignal;
}): ChunkReader {
  const { database, organizationId, directory, maxRows, signal } = options;
  let rows = maxRows;
  let maxBytes = maxChunkBytes;
  let reserved = 0;
  const limits = {
    beforeWriting: (bytes: number) => requireSpace(directory, reserved + bytes),
  };
  return {
    async read(after, path) {
      for (;;) {
        try {
          const chunk = await copyPurchases(
            database,
            { organizationId, after, rows },
            path,
            { ...limits, maxBytes },
            signal,
          );
          // If a chunk has less than half of the bytes, twice as many rows fit.
          if (chunk.bytes < maxBytes / 2) rows = Math.min(maxRows, rows * 2);
          return chunk;
        } catch (error) {
          if (!(error instanceof ChunkTooLargeError)) throw error;
          if (rows === 1) throw new OversizedRowError();
          rows = Math.ceil(rows / 2);
          maxBytes = maxLongChunkBytes;
        }
      }
    },
    reserve(bytes) {
      reserved = bytes;
    },
  };
}
