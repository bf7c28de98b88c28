import { statfs } from 'node:fs/promises';

/** Left free for other processes that write to the disk. */
export const reserveBytes = 64 * 2 ** 20;

/**
 * What DuckDB may write for each byte of purchases that it takes in: a spilled temporary
 * table, its log, and the file itself.
 */
export const duckdbWriteFactor = 3;

/** Whether `bytes` can be written and the reserve stays. */
export async function hasSpace(directory: string, bytes: number): Promise<boolean> {
  return (await freeBytes(directory)) >= bytes + reserveBytes;
}

/**
 * Rejects, as a write would, where fewer than `bytes` and a reserve are free: a
 * disk filled to the last byte stops Postgres and whoever else writes to it.
 */
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
