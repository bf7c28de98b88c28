import { chmodSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** What every process of the service creates, and every child of it, is its user's alone. */
export function keepFilesPrivate(): void {
  process.umask(0o077);
}

/**
 * Makes the data folder where it is missing. The embedded Postgres of a root user runs as
 * another user, and its files are in this folder: others may pass through, and not list it.
 */
export function makeDataDirectory(dataDirectory: string): void {
  const mask = process.umask(0);
  try {
    mkdirSync(dataDirectory, { recursive: true, mode: 0o711 });
  } finally {
    process.umask(mask);
  }
}

/**
 * Takes the rights of others to the folders with copies of rows, which earlier versions
 * left: who cannot enter these folders cannot open anything below.
 */
export function closePrivateFolders(dataDirectory: string): void {
  for (const name of ['purchases', 'spill']) {
    ignoringErrors(() => closeFolder(join(dataDirectory, name)));
  }
}

/** Takes the rights of others to a folder and to what is directly in it. */
export function closeFolder(folder: string): void {
  chmodSync(folder, 0o700);
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const mode = entry.isDirectory() ? 0o700 : 0o600;
    if (!entry.isSymbolicLink()) chmodSync(join(folder, entry.name), mode);
  }
}

/** Writes a secret. A file that others can read is replaced, not written to. */
export function writePrivateFile(path: string, content: string): void {
  rmSync(path, { force: true });
  writeFileSync(path, content, { mode: 0o600, flag: 'wx' });
}

/** The file may be another user's, be gone by now, or its file system may have no modes. */
export function ignoringErrors(work: () => void): void {
  try {
    work();
  } catch {}
}
