import { statfsSync } from 'node:fs';

/** What the worker keeps free on a disk for other processes: a share of a small disk, and no more than the limits. */
const reserveShare = 0.05;
const maxReserveBytes = 64 * 2 ** 20;
const maxReserveInodes = 1_000;

/** The disk has less free space than a write needs besides the reserve. The message has the numbers. */
export class LackOfSpaceError extends Error {
  readonly code = 'ENOSPC';
}

export const freeBytes = (directory: string): number => freeSpace(directory).bytes;

/** The bytes that stay free on the disk. */
export const reserveBytes = (directory: string): number => freeSpace(directory).reserveBytes;

/** Free bytes and inodes, and how many of them are the reserve: each new file takes an inode. */
function freeSpace(directory: string) {
  const { bavail, blocks, bsize, files, ffree } = statfsSync(directory);
  return {
    bytes: bavail * bsize,
    reserveBytes: Math.min(maxReserveBytes, Math.ceil(blocks * bsize * reserveShare)),
    // A file system that reports no inodes at all, such as btrfs, has no limit of them.
    inodes: files === 0 ? Number.POSITIVE_INFINITY : ffree,
    reserveInodes: Math.min(maxReserveInodes, Math.ceil(files * reserveShare)),
  };
}

const mebibytes = (bytes: number, round: (value: number) => number) =>
  `${round(bytes / 2 ** 20)} MiB`;

/** What a disk lacks to write `bytes` and to keep the reserve; null if it lacks nothing. */
function lackOfSpace(directory: string, bytes = 0): string | null {
  const free = freeSpace(directory);
  if (free.bytes < bytes + free.reserveBytes) {
    const needed = bytes === 0 ? '' : `${mebibytes(bytes, Math.ceil)} are needed, `;
    const reserve = mebibytes(free.reserveBytes, Math.ceil);
    return `${needed}${mebibytes(free.bytes, Math.floor)} are free, and ${reserve} must stay free as a reserve`;
  }
  if (free.inodes >= free.reserveInodes) return null;
  return `${free.inodes} inodes are free, and ${free.reserveInodes} must stay free as a reserve`;
}

/**
 * Throws if the disk lacks `bytes` or inodes besides the reserve: ticks (file-store.ts), loads and compactions
 * then stop. A full disk stops Postgres.
 */
export function requireSpace(directory: string, bytes: number): void {
  const lack = lackOfSpace(directory, bytes);
  if (lack !== null) throw new LackOfSpaceError(lack);
}

/** Why `bytes` cannot be written to DATA_DIR beside the reserve, and the remedy; null if they can. */
export function diskProblem(dataDirectory: string, bytes = 0): string | null {
  const lack = lackOfSpace(dataDirectory, bytes);
  if (lack === null) return null;
  return `The disk that holds DATA_DIR ${dataDirectory} is full: ${lack}. Free space.`;
}
