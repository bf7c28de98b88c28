import { rename, writeFile } from 'node:fs/promises';

/** What a file is called until all of it is written; a killed process leaves it behind. */
export const draftSuffix = '.tmp';

/** Writes a file that readers find whole, or as it was before. It is not synced to the disk. */
export async function writeWhole(path: string, content: string): Promise<void> {
  await writeFile(path + draftSuffix, content);
  await rename(path + draftSuffix, path);
}
