import { renameSync, writeFileSync } from 'node:fs';
import { open, rename, writeFile } from 'node:fs/promises';

/** The suffix of a file that is being written. A killed process may leave such a file. */
export const draftSuffix = '.tmp';

/** Replaces a file by rename, so that readers never see a part. Not synced to the disk. */
export async function replaceFile(path: string, content: string): Promise<void> {
  await writeFile(path + draftSuffix, content);
  await rename(path + draftSuffix, path);
}

/** Several processes that replace one file each need their own `draft`. */
export function replaceFileSync(path: string, content: string, draft = path + draftSuffix): void {
  writeFileSync(draft, content);
  renameSync(draft, path);
}

/** Waits until the content of a file, or the names of a folder, are on the disk. */
export async function syncToDisk(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
