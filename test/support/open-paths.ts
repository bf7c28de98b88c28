import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** A path, and all paths below it if it is a folder. */
export function pathsBelow(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  const names = readdirSync(path, { recursive: true, encoding: 'utf8' });
  return [path, ...names.map((name) => join(path, name))];
}

/** The paths that other users than the owner have rights to. */
export function openPaths(path: string): string[] {
  return pathsBelow(path).filter(
    // A program may rename and remove files meanwhile.
    (one) => ((statSync(one, { throwIfNoEntry: false })?.mode ?? 0) & 0o077) !== 0,
  );
}
