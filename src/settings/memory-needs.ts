import { bytesOf } from '../duckdb/memory.ts';
import { defaultShortcuts } from '../duckdb/shortcuts.ts';
import type { Settings } from './settings.ts';

const megabyte = 1e6;
/** Of Node, its libraries, and buffers. */
const ownBytes = 250 * megabyte;
const bytesOfExport = 200 * megabyte;
const maxVerificationMebibytes = 256;

/** The memory of the API with its export processes, in bytes. */
export const apiMemory = (settings: Settings): number =>
  ownBytes +
  bytesOf(settings.duckdbMemoryLimit) +
  defaultShortcuts.listCacheBytes +
  settings.responseCacheBytes +
  settings.exportConcurrency * (bytesOf(settings.exportMemoryLimit) + bytesOfExport);

/** The memory of the worker, in bytes. */
export const workerMemory = (settings: Settings): number =>
  ownBytes + bytesOf(settings.duckdbMemoryLimit);

/** The shares of the worker's DuckDB memory, as sizes of DuckDB. Verification has an instance of its own. */
export function workerShares({ duckdbMemoryLimit }: Settings): {
  readonly builds: string;
  readonly verification: string;
} {
  const all = Math.floor(bytesOf(duckdbMemoryLimit) / 2 ** 20);
  const verification = Math.min(maxVerificationMebibytes, Math.floor(all / 4));
  return { builds: `${all - verification}MiB`, verification: `${verification}MiB` };
}
