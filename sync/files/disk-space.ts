import { lackOfSpace } from '../../src/process/disk-reserve.ts';

/**
 * The bytes that DuckDB may write for each byte of purchases: a spilled temp table, the
 * write-ahead log, and the file.
 */
export const duckdbWriteFactor = 3;

/**
 * Throws an error with the code ENOSPC if the disk lacks `bytes` or inodes besides the reserve. A
 * full disk stops Postgres.
 */
export function requireSpace(directory: string, bytes: number): void {
  const lack = lackOfSpace(directory, bytes);
  if (lack === null) return;
  throw Object.assign(new Error(`No space left in ${directory}: ${lack}`), { code: 'ENOSPC' });
}
