import { statfsSync } from 'node:fs';

/** What the worker keeps free on the disk for other processes. */
export const reserveBytes = 64 * 2 ** 20;
const reserveInodes = 1_000;

export const freeBytes = (directory: string): number => freeSpace(directory).bytes;

/** Free bytes and inodes: each new file takes an inode. */
function freeSpace(directory: string): { readonly bytes: number; readonly inodes: number } {
  const { bavail, bsize, files, ffree } = statfsSync(directory);
  // A file system that reports no inodes at all, such as btrfs, has no limit of them.
  return { bytes: bavail * bsize, inodes: files === 0 ? Number.POSITIVE_INFINITY : ffree };
}

/** What a disk lacks to write `bytes` and to keep the reserve; null if it lacks nothing. */
export function lackOfSpace(directory: string, bytes = 0): string | null {
  const free = freeSpace(directory);
  const [freeMebibytes, reserve] = [free.bytes, reserveBytes].map((size) =>
    Math.floor(size / 2 ** 20),
  );
  if (free.bytes < bytes + reserveBytes) {
    const needed = bytes === 0 ? '' : `${Math.ceil(bytes / 2 ** 20)} MiB are needed, `;
    return `${needed}${freeMebibytes} MiB are free, and ${reserve} MiB must stay free as a reserve`;
  }
  if (free.inodes >= reserveInodes) return null;
  return `${free.inodes} inodes are free, and ${reserveInodes} must stay free as a reserve`;
}

/** Why nothing can be written to DATA_DIR, and the remedy; null if the reserve is free. */
export function reserveProblem(dataDirectory: string): string | null {
  const lack = lackOfSpace(dataDirectory);
  if (lack === null) return null;
  return `The disk that holds DATA_DIR ${dataDirectory} is full: ${lack}. Free space.`;
}
