import { setTimeout as sleep } from 'node:timers/promises';

export type Follower = {
  /** To be called after each query. */
  onQuery(): void;
  stop(): void;
};

/** Ticks are published ten times a second. */
const intervalMs = 50;

/**
 * Applies what is published while queries follow each other within `maxPauseMs`: the next one would wait for it. Shops
 * with rare queries have larger batches, which take less time for each change.
 */
export function createFollower(maxPauseMs: number, applyPublished: () => Promise<void>): Follower {
  let lastQueryAt = Number.NEGATIVE_INFINITY;
  let isFollowing = false;
  const isRecent = () => performance.now() - lastQueryAt <= maxPauseMs;
  const run = async () => {
    isFollowing = true;
    while (isRecent()) {
      await sleep(intervalMs, undefined, { ref: false });
      await applyPublished();
    }
    isFollowing = false;
  };
  return {
    onQuery() {
      if (isRecent() && !isFollowing) void run();
      lastQueryAt = performance.now();
    },
    stop() {
      lastQueryAt = Number.NEGATIVE_INFINITY;
    },
  };
}
