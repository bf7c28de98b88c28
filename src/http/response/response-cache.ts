import { LRUCache } from 'lru-cache';

/** A response, ready to be sent. */
export type FinishedResponse = {
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

export type Make = (signal: AbortSignal) => Promise<FinishedResponse>;

/** A request that waits for an answer. The signal is read only if the answer is not remembered. */
export type Waiter = { readonly client: string; readonly signal: AbortSignal };

/**
 * Answers that can never become wrong, because their key names the very data that
 * they were made from. The oldest unused ones go when they take too many bytes.
 */
export type ResponseCache = {
  /**
   * The answer known by that key, or else `make`'s. Requests of one client for the same
   * answer share it while it is made; the signal that `make` is given is aborted when all of
   * them have left. Another client's request runs `make` itself: it has a share of its own in
   * the query pool.
   */
  answer(key: string, waiter: Waiter, make: Make): Promise<FinishedResponse>;
};

type InFlight = {
  readonly answer: Promise<FinishedResponse>;
  readonly abandoned: AbortController;
  waiters: number;
};

/** What an entry takes beside its text. */
const overheadBytes = 512;

export function createResponseCache(mostBytes: number): ResponseCache {
  const finished =
    mostBytes === 0
      ? null
      : new LRUCache<string, FinishedResponse>({
          maxSize: mostBytes,
          // An answer as large as all others is not worth its place.
          maxEntrySize: Math.ceil(mostBytes / 8),
          sizeCalculation: ({ body }, key) => bytesOf(body) + bytesOf(key) + overheadBytes,
        });
  const inFlight = new Map<string, InFlight>();

  const begin = (key: string, name: string, make: Make): InFlight => {
    const abandoned = new AbortController();
    const answer = make(abandoned.signal)
      .then((made) => {
        finished?.set(key, made);
        return made;
      })
      .finally(() => {
        if (inFlight.get(name) === begun) inFlight.delete(name);
      });
    // It may fail when no request waits for it any more.
    answer.catch(() => {});
    const begun: InFlight = { answer, abandoned, waiters: 0 };
    inFlight.set(name, begun);
    return begun;
  };

  return {
    async answer(key, waiter, make) {
      const known = finished?.get(key);
      if (known !== undefined) return known;
      const name = `${waiter.client} ${key}`;
      const shared = inFlight.get(name) ?? begin(key, name, make);
      shared.waiters += 1;
      try {
        return await unlessAborted(shared.answer, waiter.signal);
      } finally {
        shared.waiters -= 1;
        if (shared.waiters === 0) {
          // A later request begins anew.
          if (inFlight.get(name) === shared) inFlight.delete(name);
          shared.abandoned.abort(new Error('all requests for it have left'));
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
