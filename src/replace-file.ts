import { renameSync, writeFileSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';

/** Of a file that is being written; a killed process leaves it behind. */
export const draftSuffix = '.tmp';

/** Readers find the file whole, or as it was before. It is not synced to the disk. */
export async function replaceFile(path: string, content: string): Promise<void> {
  await writeFile(path + draftSuffix, content);
  await rename(path + draftSuffix, path);
}

/** As `replaceFile`. Where several processes replace a file, each needs a `draft` of its own. */
export function replaceFileSync(path: string, content: string, draft = path + draftSuffix): void {
  writeFileSync(draft, content);
  renameSync(draft, path);
}
