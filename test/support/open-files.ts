import { existsSync, readdirSync, readlinkSync } from 'node:fs';

const descriptors = '/proc/self/fd';

/** Whether this system tells which files a process has open. */
export const canTellOpenFiles = existsSync(descriptors);

/** The files under a folder that this process has open, each once. */
export function openFilesUnder(folder: string): string[] {
  const paths = readdirSync(descriptors).flatMap((name) => {
    try {
      return [readlinkSync(`${descriptors}/${name}`)];
    } catch {
      // Closed meanwhile.
      return [];
    }
  });
  return [...new Set(paths.filter((path) => path.startsWith(folder)))].sort();
}
