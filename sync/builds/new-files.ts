import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { organizationDirectory } from '../../src/purchase-store/current.ts';
import type { Watermark } from '../capture/watermark.ts';
import type { NewLog } from '../files/log-files.ts';
import { currentOf, type FileStore } from '../files/store.ts';
import type { Organization } from '../tick/organizations.ts';
import type { Prepared } from '../tick/store.ts';

/** Files that are not published yet. */
export type NewFiles = {
  readonly organization: Organization;
  /** The name of a base, which may be the published one; null without a base. */
  readonly base: string | null;
  readonly log: NewLog;
  /** Of the base, or of the log without a base. */
  readonly purchases: number;
};

/** Batches of a log that is not published have no tick of their own. */
export const visibleAtOnce = 0;

/** Names the files in CURRENT. They show `watermark`. */
export async function publishFiles(
  store: FileStore,
  { organization: { id, source }, base, log, purchases }: NewFiles,
  tick: number,
  watermark: Watermark,
): Promise<void> {
  const end = log.end();
  const files = { base, log: log.name, logBytes: end.position, purchases };
  await store.replace(id, { current: currentOf(source, files, tick, watermark), end });
}

/** Removes files, except the published base. */
export async function discardFiles(
  store: FileStore,
  dataDirectory: string,
  { organization: { id }, base, log }: NewFiles,
): Promise<void> {
  const published = store.published(id)?.current;
  if (published?.log === log.name) return;
  log.remove();
  if (base === null || base === published?.base) return;
  await rm(join(organizationDirectory(dataDirectory, id), base), { force: true });
}

export const prepare = (
  store: FileStore,
  dataDirectory: string,
  files: NewFiles,
  since: Watermark,
): Prepared => ({
  organizationId: files.organization.id,
  since,
  append: async (records) => files.log.append(records, visibleAtOnce),
  publish: (tick, watermark) => publishFiles(store, files, tick, watermark),
  discard: () => discardFiles(store, dataDirectory, files),
});
