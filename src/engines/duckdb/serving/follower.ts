import { setTimeout as sleep } from 'node:timers/promises';

export type Follower = {
  /** Calls for some time. */
  follow(): void;
  stop(): void;
};

/** Ticks are published ten times a second. */
const intervalMs = 50;

/** Applies what is published for some time after a query: the next one would wait for it. */
export function createFollower(
  maxFollowedMs: number,
  applyPublished: () => Promise<void>,
): Follower {
  let followedUntil = 0;
  let isFollowing = false;
  const run = async () => {
    isFollowing = true;
    while (performance.now() < followedUntil) {
      await sleep(intervalMs, undefined, { ref: false });
      await applyPublished();
    }
    isFollowing = false;
  };
  return {
    follow() {
      followedUntil = performance.now() + maxFollowedMs;
      if (!isFollowing) void run();
    },
    stop() {
      followedUntil = 0;
    },
  };
}
