import { setMaxListeners } from 'node:events';
import { ApiError } from './errors.ts';

/** Waiting requests of one API key. Each occupies a connection, but no query slot. */
const maxWaitingPerKey = 10;

export type WaitingRequests = {
  /**
   * Throws rate_limited if the key has as many waiting requests as it may have. The signal is aborted
   * when the server stops. Call `end` after the response.
   */
  begin(keyId: bigint): { readonly signal: AbortSignal; end(): void };
  stop(): void;
};

export function createWaitingRequests(): WaitingRequests {
  const stopping = new AbortController();
  // Each waiting request listens to it.
  setMaxListeners(0, stopping.signal);
  const waiting = new Map<bigint, number>();
  const add = (keyId: bigint, change: number): void => {
    const count = (waiting.get(keyId) ?? 0) + change;
    if (count === 0) waiting.delete(keyId);
    else waiting.set(keyId, count);
  };
  return {
    begin(keyId) {
      if ((waiting.get(keyId) ?? 0) >= maxWaitingPerKey) {
        throw new ApiError(
          'rate_limited',
          `This API key has ${maxWaitingPerKey} requests that wait for changes, which is as many as it may have.`,
          { retryAfter: 1, limit: 'waiting_requests' },
        );
      }
      add(keyId, 1);
      return { signal: stopping.signal, end: () => add(keyId, -1) };
    },
    stop: () => stopping.abort(),
  };
}
