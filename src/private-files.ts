import { chmodSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Makes all files that this process and its children create readable only by their user. */
export function keepFilesPrivate(): void {
  process.umask(0o077);
}

/**
 * Creates the data folder. Others may pass through and not list it: if root starts the embedded
 * Postgres, another user runs it in this folder.
 */
export function makeDataDirectory(dataDirectory: string): void {
  const mask = process.umask(0);
  try {
    mkdirSync(dataDirectory, { recursive: true, mode: 0o711 });
  } finally {
    process.umask(mask);
  }
}

/** Removes the permissions of others on folders with copies of rows, which earlier versions set. */
export function restrictFolders(dataDirectory: string): void {
  for (const name of ['purchases', 'spill']) {
    ignoringErrors(() => restrictFolder(join(dataDirectory, name)));
  }
}

/** Does nothing if others cannot reach the folder: then it was restricted before. */
function restrictFolder(folder: string): void {
  if ((statSync(folder).mode & 0o077) === 0) return;
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isSymbolicLink()) continue;
    const mode = entry.isDirectory() ? 0o700 : 0o600;
    ignoringErrors(() => chmodSync(join(entry.parentPath, entry.name), mode));
  }
  chmodSync(folder, 0o700);
}

/** Writes a secret to a new file, because others may read an existing one. */
export function writePrivateFile(path: string, content: string): void {
  rmSync(path, { force: true });
  writeFileSync(path, content, { mode: 0o600, flag: 'wx' });
}

/** For files that may be another user's, be missing, or be on a file system without modes. */
export function ignoringErrors(work: () => void): void {
  try {
    work();
  } catch {}
}
