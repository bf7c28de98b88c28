import type { ReplacedLog } from '../../src/purchase-store/format/current.ts';
import type { NewLog, PublishedLog } from './log-files.ts';

/** How long replaced logs stay for the change feed, and how many bytes those of an organization take. */
export type ChangesRetention = {
  readonly changesRetentionMs: number;
  readonly changesMaxBytes: number;
};

/** Replaced logs do not stay. */
export const noRetention: ChangesRetention = { changesRetentionMs: 0, changesMaxBytes: 0 };

/**
 * The change feed after the published log has been replaced. `gap` has the changes between what both
 * show; null if they show the same.
 */
export function replacedLogs({ current, end }: PublishedLog, gap: NewLog | null): ReplacedLog[] {
  const replacedAt = Date.now();
  const { log, logBytes: begin } = current;
  return [
    ...current.replacedLogs,
    { log, begin, end: end.position, replacedAt },
    ...(gap === null ? [] : [{ log: gap.name, begin: 0, end: gap.end().position, replacedAt }]),
  ];
}

/** The newest replaced logs that stay. Logs before a removed one are removed too, so the feed has no gaps. */
export function retainedLogs(
  logs: readonly ReplacedLog[],
  { changesRetentionMs, changesMaxBytes }: ChangesRetention,
): ReplacedLog[] {
  const oldest = Date.now() - changesRetentionMs;
  let bytes = 0;
  const removed = logs.findLastIndex(({ end, replacedAt }) => {
    bytes += end;
    return bytes > changesMaxBytes || replacedAt <= oldest;
  });
  return logs.slice(removed + 1);
}
