/** The limit that a refused request exceeded (README, settings). */
export type Limit = 'requests' | 'failed_keys' | 'query_queue' | 'exports' | 'unread_responses';

export type ExportOutcome = 'complete' | 'disconnected' | 'failed';

/** Receives the events of requests, for metrics. */
export type HttpObserver = {
  /** `route` is a pattern, not a path, which may contain personal data or a secret. */
  responded(response: {
    readonly route: string;
    readonly status: number;
    readonly milliseconds: number;
  }): void;
  /** A request exceeded a limit, and is answered with 429. */
  limited(limit: Limit): void;
  /** A request under /v1 had no valid key. */
  keyFailed(): void;
  /** A cacheable response was cached, awaited together with an earlier request, or computed. */
  cacheRead(result: 'hit' | 'shared' | 'miss'): void;
  /** The head of the response is sent. An earlier failure has an error response. */
  exportStarted(): void;
  exportSent(bytes: number): void;
  exportEnded(outcome: ExportOutcome, milliseconds: number): void;
};

export const noObserver: HttpObserver = {
  responded() {},
  limited() {},
  keyFailed() {},
  cacheRead() {},
  exportStarted() {},
  exportSent() {},
  exportEnded() {},
};
