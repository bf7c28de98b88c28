import { freeBytes, reserveBytes } from '../../src/process/disk-reserve.ts';

/**
 * The bytes that DuckDB may write for each byte of purchases: a spilled temp table, the
 * write-ahead log, and the file.
 */
export const duckdbWriteFactor = 3;

/** Throws an error with the code ENOSPC if the disk lacks `bytes` besides the reserve. A full disk stops Postgres. */
export function requireSpace(directory: string, bytes: number): void {
  const free = freeBytes(directory);
  if (free >= bytes + reserveBytes) return;
  const needed = Math.ceil((bytes + reserveBytes) / 2 ** 20);
  const error = new Error(
    `No space left: ${needed} MiB are needed in ${directory}, ${Math.floor(free / 2 ** 20)} MiB are free`,
  );
  throw Object.assign(error, { code: 'ENOSPC' });
}
