/** The limit that a refused request exceeded (README, settings). */
export const limits = [
  'requests',
  'failed_keys',
  'query_queue',
  'query_time',
  'exports',
  'unread_responses',
  'waiting_requests',
] as const;
export type Limit = (typeof limits)[number];

export const exportOutcomes = ['complete', 'disconnected', 'failed', 'key_invalid'] as const;
export type ExportOutcome = (typeof exportOutcomes)[number];

/** A cacheable response was cached, awaited together with an earlier request, or computed. */
export const cacheResults = ['hit', 'shared', 'miss'] as const;

export type HttpObserver = {
  /** `route` is a pattern, not a path, which may contain personal data or a secret. */
  responded(response: {
    readonly route: string;
    readonly status: number;
    readonly milliseconds: number;
  }): void;
  /** A request exceeded a limit, and gets 429. */
  limited(limit: Limit): void;
  /** A request under /v1 had no valid key. */
  keyFailed(): void;
  cacheRead(result: (typeof cacheResults)[number]): void;
  /** The head of the response is sent. An earlier failure has an error response. */
  exportStarted(): void;
  exportSent(bytes: number): void;
  exportEnded(outcome: ExportOutcome, milliseconds: number): void;
};
