import { statfsSync } from 'node:fs';

/** Disk space that the worker keeps free for other processes. */
export const reserveBytes = 64 * 2 ** 20;

export function freeBytes(directory: string): number {
  const { bavail, bsize } = statfsSync(directory);
  return bavail * bsize;
}

/** Why nothing can be written to DATA_DIR, and the remedy; null if the reserve is free. */
export function reserveProblem(dataDirectory: string): string | null {
  const free = freeBytes(dataDirectory);
  if (free >= reserveBytes) return null;
  const [freeMebibytes, reserve] = [free, reserveBytes].map((bytes) => Math.floor(bytes / 2 ** 20));
  return (
    `The disk that holds DATA_DIR ${dataDirectory} is full: ${freeMebibytes} MiB are free, and ` +
    `${reserve} MiB must stay free as a reserve. Free space.`
  );
}
