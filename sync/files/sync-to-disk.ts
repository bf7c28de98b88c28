import { open } from 'node:fs/promises';

/** Waits until the content of a file, or the names of a folder, are on the disk. */
export async function syncToDisk(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
