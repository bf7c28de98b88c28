import { lackOfSpace } from '../../src/process/disk-reserve.ts';

/** The disk has less free space than a write needs besides the reserve. The message has the numbers. */
export class LackOfSpaceError extends Error {
  readonly code = 'ENOSPC';
}

/** Throws if the disk lacks `bytes` or inodes besides the reserve. A full disk stops Postgres. */
export function requireSpace(directory: string, bytes: number): void {
  const lack = lackOfSpace(directory, bytes);
  if (lack !== null) throw new LackOfSpaceError(lack);
}
