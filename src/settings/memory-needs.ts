import { bytesOf } from '../duckdb/memory.ts';
import type { Settings } from './settings.ts';

const megabyte = 1e6;
/** Of Node, its libraries, and buffers. */
const ownBytes = 250 * megabyte;
const bytesOfExport = 200 * megabyte;
const bytesOfVerification = 256 * megabyte;

/** The memory of the API with its export processes, in bytes. */
export const apiMemory = (settings: Settings): number =>
  ownBytes +
  bytesOf(settings.duckdbMemoryLimit) +
  settings.responseCacheBytes +
  settings.exportConcurrency * (bytesOf(settings.exportMemoryLimit) + bytesOfExport);

/** The memory of the worker, in bytes. */
export const workerMemory = (settings: Settings): number =>
  ownBytes + bytesOf(settings.duckdbMemoryLimit) + bytesOfVerification;
