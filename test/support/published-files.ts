import { join } from 'node:path';
import { type Current, readCurrent } from '../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../src/purchase-store/format/layout.ts';

/** What CURRENT names in an organization's folder; null if nothing is published. */
export const publishedFiles = (folder: string): Current | null =>
  readCurrent(folder, layoutVersion);

/** The published log of an organization. */
export function publishedLog(folder: string): string {
  const current = publishedFiles(folder);
  if (current === null) throw new Error(`nothing is published in ${folder}`);
  return join(folder, current.log);
}
