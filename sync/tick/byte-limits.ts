/**
 * Bounds of memory, in bytes of log lines. Bounds in rows are not enough: a row may have 70 KB of text,
 * which is 250 times the usual. The limits in rows are `defaultMaxTickChanges` (tick-steps.ts) and
 * `defaultMaxLogRecords` (sync/worker/build-scheduler.ts).
 */

/** The changes that one tick reads: of all organizations together, and of one organization. */
export const maxTickBytes = 64 * 2 ** 20;
export const maxTickBytesOfOne = 16 * 2 ** 20;

/** Changes since a load or compaction beyond which the next one is due. */
export const maxUncompactedBytes = 64 * 2 ** 20;

/** The changes in a log. Readers and merges hold a whole log in memory. */
export const maxLogBytes = 2 * maxUncompactedBytes;

/** The purchases of an organization without a base. */
export const maxBytesWithoutBase = 16 * 2 ** 20;

/** The changes of an organization exceed one of these bounds. */
export class TooManyBytesError extends Error {
  readonly organizationId: bigint;
  constructor(organizationId: bigint) {
    super('the changes of an organization have too much text');
    this.organizationId = organizationId;
  }
}
