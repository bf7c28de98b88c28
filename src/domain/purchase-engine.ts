import type { Interval } from './period.ts';
import type { Purchase } from './purchase.ts';
import type { PurchaseFilters, PurchaseListQuery } from './purchase-query.ts';
import type {
  Currencies,
  PurchaseCohorts,
  PurchaseCohortsQuery,
  PurchaseReport,
  PurchaseReportQuery,
} from './purchase-report.ts';

export type PurchasePage = {
  /** Newest first: `created_at`, then `id`, both descending. */
  readonly purchases: readonly Purchase[];
  readonly hasMore: boolean;
};

export type PurchaseSums = { readonly purchaseCount: bigint; readonly revenueInCents: bigint };

type PurchaseGroup = PurchaseSums & { readonly key: string | null };

export type PurchaseTotals = PurchaseSums & Currencies & { readonly customerCount: bigint };

export type PurchaseStats = PurchaseTotals & {
  /** Revenue descending, then count descending, then key ascending, null last. */
  readonly groups: readonly PurchaseGroup[];
  readonly groupsTruncated: boolean;
};

/** The matching purchases of a period. */
export type PurchasePeriod = PurchaseSums & {
  /** The first instant of the period, also if `created_since` is later. */
  readonly startsAt: bigint;
  readonly customerCount: bigint;
};

export type PurchaseTimeSeries = PurchaseTotals & {
  readonly interval: Interval;
  /** In the order of the ranking; one with the key null without a dimension. */
  readonly series: readonly {
    readonly key: string | null;
    /** In the order of time, without gaps. */
    readonly periods: readonly PurchasePeriod[];
  }[];
  readonly seriesTruncated: boolean;
};

export type ExportSource =
  /** The matching purchases in batches, read on demand: memory stays bounded. */
  | { readonly purchases: AsyncIterable<readonly Purchase[]> }
  /** Open files of the purchase store, with purchases that do not match as well. */
  | { readonly files: StoreFiles };

/** The descriptors of an open base (null: there is none) and log, and the part of the log to read. */
export type StoreFiles = {
  readonly base: number | null;
  readonly log: number;
  readonly part: { readonly lines: number; readonly bytes: number };
  /** The instant of the data. */
  readonly asOf: bigint;
};

/** A result, and the instant (microseconds since 1970) of the data that it shows. */
export type AsOf<Result> = { readonly result: Result; readonly asOf: bigint };

/** A result, and the version of the data that it shows; `version` is null if the data are not immutable. */
export type Versioned<Result> = AsOf<Result> & { readonly version: DataVersion['name'] | null };

/** The organization's queries without a `client` count as those of one. */
export type QueuedRead<Query, Result> = (
  organizationId: bigint,
  query: Query,
  signal?: AbortSignal,
  client?: string,
) => Promise<Versioned<Result>>;

/** Immutable data, and the instant up to which they show all changes. */
export type DataVersion = { readonly name: string; readonly asOf: bigint };

/**
 * Runs queries over purchases. Every engine returns the same result for the same query over the
 * same rows, as the contract test proves.
 *
 * A method rejects with UnknownCursorError if the cursor is no purchase of the organization, with
 * QueueFullError if the queue is full, with StoreUnavailableError if the store is, and with the
 * signal's reason if the signal is aborted.
 */
export interface PurchaseReader {
  readonly list: QueuedRead<PurchaseListQuery, PurchasePage>;

  /** The query is the purchase's id. Null if the organization does not have this purchase. */
  readonly get: QueuedRead<bigint, Purchase | null>;

  /** Rejects with TooManyPeriodsError if the periods exceed the maximum, and with TooManyGroupsError. */
  readonly report: QueuedRead<PurchaseReportQuery, PurchaseReport>;

  /** Rejects with TooManyCohortsError. */
  readonly cohorts: QueuedRead<PurchaseCohortsQuery, PurchaseCohorts>;

  /**
   * Calls `take` with a source that has each matching purchase exactly once, as of one instant,
   * in no particular order. The source is valid until `take` settles. If the engine closes, it
   * aborts the signal that `take` receives. Resolves with the result of `take`. If the data prove
   * to be damaged, another engine may call `take` again.
   */
  export<Result>(
    organizationId: bigint,
    filters: PurchaseFilters,
    take: (source: AsOf<ExportSource>, signal: AbortSignal) => Promise<Result>,
    signal?: AbortSignal,
  ): Promise<Result>;

  /** The instant that the engine's data show; null if the engine has no data of the organization. */
  freshness(organizationId: bigint): Promise<bigint | null>;

  /** The version of the data that queries read at present; null if the data are not immutable. */
  version(organizationId: bigint): Promise<DataVersion | null>;

  /**
   * Resolves once the engine's data show `instant` or later, and requests a refresh meanwhile.
   * Only the signal bounds the wait.
   */
  waitUntilFresh(organizationId: bigint, instant: bigint, signal: AbortSignal): Promise<void>;
}

export interface PurchaseEngine extends PurchaseReader {
  /**
   * Reads only data of this source: of one organization, of one database and its timeline
   * (`servedSource` in postgres/connection/source-identity.ts). Each request reads the source of its API key.
   */
  forSource(source: string): PurchaseReader;

  close(): Promise<void>;
}

export class UnknownCursorError extends Error {
  override readonly name = 'UnknownCursorError';
}

/** Thrown if an engine does not have an organization's purchases. Another engine may have them. */
export class NoGenerationError extends Error {
  override readonly name = 'NoGenerationError';
}

/** The store cannot be reached, or refuses. A later request may succeed. */
export class StoreUnavailableError extends Error {
  override readonly name = 'StoreUnavailableError';
}

/** The queue has reached its limit, or no slot became free in time. A later request may succeed. */
export class QueueFullError extends Error {
  override readonly name = 'QueueFullError';
}

/** A query ran for too long. A narrower one may succeed. */
export class QueryTimeoutError extends Error {
  override readonly name = 'QueryTimeoutError';
}

/** Cents per purchase, rounded half away from zero; 0 if there are no purchases. */
export function averageTicket(revenueInCents: bigint, purchaseCount: bigint): bigint {
  if (purchaseCount === 0n) return 0n;
  const magnitude = revenueInCents < 0n ? -revenueInCents : revenueInCents;
  const rounded = (2n * magnitude + purchaseCount) / (2n * purchaseCount);
  return revenueInCents < 0n ? -rounded : rounded;
}
