import {
  accessSync,
  chmodSync,
  constants,
  mkdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { OperatorError } from './operator-error.ts';

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
  } catch (error) {
    // Node reports ENOENT on a read-only file system. Without `recursive`, it reports the cause.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    mkdirSync(dataDirectory, { mode: 0o711 });
  } finally {
    process.umask(mask);
  }
}

/** Keeps others out of folders with copies of rows, which a copy of DATA_DIR may have left open. */
export function restrictFolders(dataDirectory: string): void {
  for (const name of ['purchases', 'spill']) {
    // A folder may be missing, or on a file system without modes.
    try {
      chmodSync(join(dataDirectory, name), 0o700);
    } catch {}
  }
}

const sharedFolders = ['purchases', 'purchases/ticks', 'purchases/requests', 'purchases/damaged'];

/**
 * Throws if this process cannot use the folders of another user, or would create files in them that the
 * other user cannot read, as root would.
 */
export function requireSameUser(dataDirectory: string): void {
  const user = process.getuid?.();
  for (const folder of sharedFolders.map((name) => join(dataDirectory, name))) {
    const owner = ownerOf(folder);
    if (owner === null || owner === user || (user !== 0 && isUsable(folder))) continue;
    throw new OperatorError(
      `${folder} belongs to the user with the id ${owner}, and this process runs as the user ${user}: ` +
        'run the API, the worker and all commands as one user, who owns the folder.',
    );
  }
}

/** Null if there is no such folder, or none that this process can see. */
function ownerOf(folder: string): number | null {
  try {
    return statSync(folder).uid;
  } catch {
    return null;
  }
}

function isUsable(folder: string): boolean {
  try {
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Writes a secret to a new file, because others may read an existing one. */
export function writePrivateFile(path: string, content: string): void {
  rmSync(path, { force: true });
  writeFileSync(path, content, { mode: 0o600, flag: 'wx' });
}
