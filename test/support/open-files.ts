import { existsSync, readdirSync, readlinkSync } from 'node:fs';

/** Whether /proc lists the open files of a process, as on Linux. */
export const canListOpenFiles = existsSync('/proc/self/fd');

/** The distinct files under a folder that a process, by default this one, has open. */
export function openFilesUnder(folder: string, pid: number | 'self' = 'self'): string[] {
  const descriptors = `/proc/${pid}/fd`;
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
