import { statfs } from 'node:fs/promises';

/** Disk space that the worker leaves to other processes. */
export const reserveBytes = 64 * 2 ** 20;

/**
 * The bytes that DuckDB may write for each byte of purchases: a spilled temp table, the
 * write-ahead log, and the file.
 */
export const duckdbWriteFactor = 3;

/** Whether the disk has `bytes` besides the reserve. */
export async function hasSpace(directory: string, bytes: number): Promise<boolean> {
  return (await freeBytes(directory)) >= bytes + reserveBytes;
}

/** Rejects with ENOSPC if the disk lacks `bytes` besides the reserve. A full disk stops Postgres. */
export async function requireSpace(directory: string, bytes: number): Promise<void> {
  const free = await freeBytes(directory);
  if (free >= bytes + reserveBytes) return;
  const needed = Math.ceil((bytes + reserveBytes) / 2 ** 20);
  const error = new Error(
    `No space left: ${needed} MiB are needed in ${directory}, ${Math.floor(free / 2 ** 20)} MiB are free`,
  );
  throw Object.assign(error, { code: 'ENOSPC' });
}

async function freeBytes(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
}
