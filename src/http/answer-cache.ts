import { LRUCache } from 'lru-cache';
import { Askers } from '../domain/askers.ts';

/** A response, ready to be sent. */
export type FinishedAnswer = {
  readonly body: string | Buffer;
  readonly contentType: string;
  /** Null where the route's answers carry none. */
  readonly entityTag: string | null;
  /** When the data that it shows was read; microseconds since 1970. */
  readonly asOf: bigint;
  /** Whether there are more rows than it shows, where its body does not say so. */
  readonly hasMore?: boolean;
  /** The cursor of the next page; null where there is none. */
  readonly next: string | null;
};

export type Make = (signal: AbortSignal, askers: Askers) => Promise<FinishedAnswer>;

/**
 * Answers that can never become wrong, because their key names the very data that
 * they were made from. The oldest unused ones go when they take too many bytes.
 */
export type AnswerCache = {
  /**
   * The answer known by that key, or else `make`'s. Whoever asks for the same while it
   * is being made waits for the same one; it is given up when all of them have left,
   * by the signal that `make` is given. The askers that it is given are those who wait
   * at any time, so that an answer need not wait for the turn of who asked first.
   */
  answer(key: string, asker: string, signal: AbortSignal, make: Make): Promise<FinishedAnswer>;
};

type UnderWay = {
  readonly answer: Promise<FinishedAnswer>;
  readonly givingUp: AbortController;
  /** Who waits for it. */
  readonly askers: Askers;
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

  const begin = (key: string, asker: string, make: Make): UnderWay => {
    const givingUp = new AbortController();
    const askers = new Askers(asker);
    const answer = make(givingUp.signal, askers)
      .then((made) => {
        finished?.set(key, made);
        return made;
      })
      .finally(() => {
        if (underWay.get(key) === begun) underWay.delete(key);
      });
    // It may fail when nobody waits for it any more.
    answer.catch(() => {});
    const begun: UnderWay = { answer, givingUp, askers };
    underWay.set(key, begun);
    return begun;
  };

  return {
    async answer(key, asker, signal, make) {
      const known = finished?.get(key);
      if (known !== undefined) return known;
      const joined = underWay.get(key);
      joined?.askers.join(asker);
      const shared = joined ?? begin(key, asker, make);
      try {
        return await unlessAborted(shared.answer, signal);
      } finally {
        shared.askers.leave(asker);
        if (shared.askers.present.length === 0) {
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
