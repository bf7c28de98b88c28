import { LRUCache } from 'lru-cache';

/** A response, ready to be sent. */
export type FinishedAnswer = {
  readonly body: string | Buffer;
  /** Null where the route's answers carry none. */
  readonly entityTag: string | null;
  /** When the data that it shows was read; microseconds since 1970. */
  readonly asOf: bigint;
  /** Whether there are more rows than it shows, where its body does not say so. */
  readonly hasMore?: boolean;
  /** The cursor of the next page; null where there is none. */
  readonly next: string | null;
};

/**
 * Answers that can never become wrong, because their key names the very data that
 * they were made from. The oldest unused ones go when they take too many bytes.
 */
export type AnswerCache = {
  /**
   * The answer known by that key, or else `make`'s. Whoever asks for the same while it
   * is being made waits for the same one; it is given up when all of them have left,
   * by the signal that `make` is given.
   */
  answer(
    key: string,
    signal: AbortSignal,
    make: (signal: AbortSignal) => Promise<FinishedAnswer>,
  ): Promise<FinishedAnswer>;
};

type UnderWay = {
  readonly answer: Promise<FinishedAnswer>;
  readonly givingUp: AbortController;
  waiting: number;
};

/** What an entry takes beside its text. */
const overheadBytes = 512;

export function createAnswerCache(mostBytes: number): AnswerCache {
  const finished =
    mostBytes === 0
      ? null
      : new LRUCache<string, FinishedAnswer>({
          maxSize: mostBytes,
          // An answer as large as all others is not worth its place.
          maxEntrySize: Math.ceil(mostBytes / 8),
          sizeCalculation: ({ body }, key) => bytesOf(body) + bytesOf(key) + overheadBytes,
        });
  const underWay = new Map<string, UnderWay>();

  const begin = (key: string, make: (signal: AbortSignal) => Promise<FinishedAnswer>): UnderWay => {
    const givingUp = new AbortController();
    const answer = make(givingUp.signal)
      .then((made) => {
        finished?.set(key, made);
        return made;
      })
      .finally(() => {
        if (underWay.get(key) === begun) underWay.delete(key);
      });
    // It may fail when nobody waits for it any more.
    answer.catch(() => {});
    const begun: UnderWay = { answer, givingUp, waiting: 0 };
    underWay.set(key, begun);
    return begun;
  };

  return {
    async answer(key, signal, make) {
      const known = finished?.get(key);
      if (known !== undefined) return known;
      const shared = underWay.get(key) ?? begin(key, make);
      shared.waiting += 1;
      try {
        return await unlessAborted(shared.answer, signal);
      } finally {
        shared.waiting -= 1;
        if (shared.waiting === 0) {
          // Whoever comes now begins anew.
          if (underWay.get(key) === shared) underWay.delete(key);
          shared.givingUp.abort(new Error('everybody who asked has left'));
        }
      }
    },
  };
}

/** At most: a character of a text takes up to two. */
const bytesOf = (content: string | Buffer): number =>
  typeof content === 'string' ? 2 * content.length : content.length;

/** Rejects with the signal's reason as soon as that is aborted. */
function unlessAborted<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const leave = () => reject(signal.reason);
    if (signal.aborted) leave();
    signal.addEventListener('abort', leave, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  });
}
