import { statfs } from 'node:fs/promises';

/** Disk space that the worker keeps free for other processes. */
export const reserveBytes = 64 * 2 ** 20;

/**
 * The bytes that DuckDB may write for each byte of purchases: a spilled temp table, the
 * write-ahead log, and the file.
 */
export const duckdbWriteFactor = 3;

/** Rejects with ENOSPC if the disk lacks `bytes` besides the reserve. A full disk stops Postgres. */
export async function requireSpace(directory: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(directory);
  const free = bavail * bsize;
  if (free >= bytes + reserveBytes) return;
  const needed = Math.ceil((bytes + reserveBytes) / 2 ** 20);
  const error = new Error(
    `No space left: ${needed} MiB are needed in ${directory}, ${Math.floor(free / 2 ** 20)} MiB are free`,
  );
  throw Object.assign(error, { code: 'ENOSPC' });
}
