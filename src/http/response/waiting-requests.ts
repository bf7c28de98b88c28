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
  const waiting = new Map<bigint, Set<AbortController>>();
  let isStopping = false;
  return {
    begin(keyId) {
      const ofKey = waiting.get(keyId) ?? new Set();
      if (ofKey.size >= maxWaitingPerKey) {
        throw new ApiError(
          'rate_limited',
          `This API key has ${maxWaitingPerKey} requests that wait for changes, which is as many as it may have.`,
          { retryAfter: 1, limit: 'waiting_requests' },
        );
      }
      // Of each request: a signal compares a new listener with all that it has.
      const request = new AbortController();
      if (isStopping) request.abort();
      waiting.set(keyId, ofKey.add(request));
      const end = () => {
        ofKey.delete(request);
        if (ofKey.size === 0) waiting.delete(keyId);
      };
      return { signal: request.signal, end };
    },
    stop() {
      isStopping = true;
      for (const ofKey of waiting.values()) for (const request of ofKey) request.abort();
    },
  };
}
