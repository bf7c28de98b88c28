import { statfs } from 'node:fs/promises';

/** Left free for everybody else on the disk. */
const reserveBytes = 64 * 2 ** 20;

/** Whether `bytes` can be written and the reserve stays. */
export async function hasSpace(directory: string, bytes: number): Promise<boolean> {
  return (await freeBytes(directory)) >= bytes + reserveBytes;
}

/**
 * Rejects, as a write would, where fewer than `bytes` and a reserve are free: a
 * disk filled to the last byte stops Postgres and whoever else writes to it.
 */
export async function requireSpace(directory: string, bytes: number): Promise<void> {
  if (await hasSpace(directory, bytes)) return;
  const free = await freeBytes(directory);
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
