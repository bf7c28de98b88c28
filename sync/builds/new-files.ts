import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { removeSavedDelta } from '../../src/purchase-store/delta/saved-delta.ts';
import { organizationDirectory } from '../../src/purchase-store/format/current.ts';
import type { Watermark } from '../capture/watermark.ts';
import { currentOf, type FileStore } from '../files/file-store.ts';
import { createLogFile, type NewLog, replacedLogs } from '../files/log-files.ts';
import type { Organization } from '../organization.ts';
import type { ChangeGap, Prepared } from '../tick/store.ts';

/** Files that are not published yet. */
export type NewFiles = {
  readonly organization: Organization;
  /** The name of a base, which may be the published one; null without a base. */
  readonly base: string | null;
  readonly log: NewLog;
  /** The purchases of the base, or of the log without a base. */
  readonly purchases: number;
  /** The records that the saved delta of the log shows. */
  readonly savedRecords?: number;
};

type GapLog = ChangeGap & {
  until: Watermark | null;
  /** Null if there are no changes. */
  log: NewLog | null;
};

/** Creates a gap. The first changes create its log. */
export function createGapLog(dataDirectory: string, organizationId: bigint): GapLog {
  const gap: GapLog = {
    until: null,
    log: null,
    isComplete: false,
    append(records) {
      gap.log ??= createLogFile(organizationDirectory(dataDirectory, organizationId));
      gap.log.append(records);
    },
  };
  return gap;
}

/** A compaction changes no purchase, so the feed has no gap. */
export const noGap: Pick<GapLog, 'log' | 'isComplete'> = { log: null, isComplete: true };

/** Names the files in CURRENT. They show `watermark`. The change feed goes on if the gap is complete. */
export async function publishFiles(
  store: FileStore,
  { organization: { id, source }, base, log, purchases, savedRecords = 0 }: NewFiles,
  gap: Pick<GapLog, 'log' | 'isComplete'>,
  tick: number,
  watermark: Watermark,
): Promise<void> {
  const end = log.end();
  const before = store.published(id);
  const isContinued =
    before !== null &&
    before.current.source === source &&
    before.isDamaged !== true &&
    gap.isComplete;
  const files = {
    ...{ base, log: log.name, logBytes: end.bytes, purchases },
    replacedLogs: isContinued ? replacedLogs(before, gap.log) : [],
  };
  const current = currentOf(source, files, tick, watermark);
  await store.replace(id, { current, end, savedRecords });
}

/** Removes unpublished files. Does nothing after their publication. */
export async function discardFiles(
  store: FileStore,
  dataDirectory: string,
  { organization: { id }, base, log }: NewFiles,
): Promise<void> {
  const published = store.published(id)?.current;
  if (published?.log === log.name) return;
  log.remove();
  const directory = organizationDirectory(dataDirectory, id);
  removeSavedDelta(directory, log.name);
  if (base === null || base === published?.base) return;
  await rm(join(directory, base), { force: true });
}

export const prepare = (
  store: FileStore,
  dataDirectory: string,
  files: NewFiles,
  since: Watermark,
  gap = createGapLog(dataDirectory, files.organization.id),
): Prepared => ({
  organizationId: files.organization.id,
  source: files.organization.source,
  since,
  gap,
  append: async (records) => files.log.append(records),
  publish: (tick, watermark) => publishFiles(store, files, gap, tick, watermark),
  async discard() {
    if (store.published(files.organization.id)?.current.log !== files.log.name) gap.log?.remove();
    await discardFiles(store, dataDirectory, files);
  },
});
