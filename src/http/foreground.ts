import { setImmediate as nextLoop } from 'node:timers/promises';
import PQueue from 'p-queue';

/**
 * Who goes first where all work shares one thread: whoever waits for an answer before
 * exports, which take their time anyway.
 */
export type Foreground = {
  /** Somebody waits for an answer, until the returned function is called; again is once. */
  enter(): () => void;
  /**
   * Resolves when an export may work for some milliseconds: one export after the other,
   * and when nobody waits for an answer; or else after a while, so that all come to an end.
   */
  turn(): Promise<void>;
};

const longestWaitMs = 100;

export function createForeground(): Foreground {
  let present = 0;
  let onQuiet: (() => void) | null = null;
  const turns = new PQueue({ concurrency: 1 });

  const untilQuiet = (): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, longestWaitMs);
      onQuiet = () => {
        clearTimeout(timer);
        resolve();
      };
      if (present === 0) onQuiet();
    });

  return {
    enter() {
      present += 1;
      let isPresent = true;
      return () => {
        if (!isPresent) return;
        isPresent = false;
        present -= 1;
        if (present === 0) onQuiet?.();
      };
    },
    async turn() {
      await turns.add(async () => {
        // Whatever has come in meanwhile is seen first.
        await nextLoop();
        await untilQuiet();
      });
    },
  };
}
