import { existsSync, readdirSync, readlinkSync } from 'node:fs';

const descriptors = '/proc/self/fd';

/** Whether /proc lists the open files of a process, as on Linux. */
export const canListOpenFiles = existsSync(descriptors);

/** The distinct files under a folder that this process has open. */
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
