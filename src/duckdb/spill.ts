import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** A running process writes its files more often. */
const maxUnchangedMs = 3_600_000;

const spillOf = (dataDirectory: string): string => join(dataDirectory, 'spill');

/**
 * A new path for the folder of temporary files of one DuckDB instance, which creates it. Processes of several
 * containers have the same ids, and DuckDB would write to files of another process.
 */
export const spillDirectory = (dataDirectory: string, name: string): string =>
  join(spillOf(dataDirectory), `${name}-${randomBytes(6).toString('hex')}`);

/**
 * Creates the folder that holds those of processes, and removes the temporary files that killed
 * processes left: they are known by their age, because processes may run in other containers.
 */
export function prepareSpill(dataDirectory: string): void {
  const spill = spillOf(dataDirectory);
  mkdirSync(spill, { recursive: true });
  for (const entry of readdirSync(spill, { recursive: true, encoding: 'utf8' })) {
    const path = join(spill, entry);
    const stats = statSync(path, { throwIfNoEntry: false });
    // DuckDB does not create a folder again that is removed while its process runs.
    if (stats === undefined || stats.isDirectory()) continue;
    if (Date.now() - stats.mtimeMs > maxUnchangedMs) rmSync(path, { force: true });
  }
}
