import type { PurchasePlace } from '../../../src/domain/purchase-query.ts';
import type { Database } from '../../../src/postgres/connection/pool.ts';
import { OversizedRowError } from '../../describe-failure.ts';
import { ChunkTooLargeError, type CopiedChunk, copyPurchases } from './copy-purchases.ts';

/** The maximum size of the lines of a chunk. DuckDB joins a chunk with the dictionaries in memory. */
export const maxChunkBytes = 96 * 2 ** 20;
/** The maximum if purchases have much text: DuckDB takes several times the bytes of a chunk. */
const maxLongChunkBytes = 32 * 2 ** 20;

/** Copies an organization's purchases into files, in chunks bounded by rows and by bytes. */
type ChunkReader = {
  read(after: PurchasePlace | null, path: string): Promise<CopiedChunk>;
};

export function createChunkReader(options: {
  readonly database: Database;
  readonly organizationId: bigint;
  readonly maxRows: number;
  /** Called before bytes are written to the file. If it throws, the reader rejects. */
  readonly beforeWriting: (bytes: number) => void;
  readonly signal: AbortSignal;
}): ChunkReader {
  const { database, organizationId, maxRows, beforeWriting, signal } = options;
  let rows = maxRows;
  let maxBytes = maxChunkBytes;
  return {
    async read(after, path) {
      for (;;) {
        try {
          const chunk = await copyPurchases(
            database,
            { organizationId, after, rows },
            path,
            { beforeWriting, maxBytes },
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
  };
}
