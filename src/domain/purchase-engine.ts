import type { Purchase } from './purchase.ts';
import type { PurchaseFilters, PurchaseListQuery, PurchaseStatsQuery } from './purchase-query.ts';

export type PurchasePage = {
  /** Newest first: `created_at`, then `id`, both descending. */
  readonly purchases: readonly Purchase[];
  readonly hasMore: boolean;
};

export type PurchaseGroup = {
  readonly key: string | null;
  readonly purchaseCount: bigint;
  readonly revenueInCents: bigint;
};

export type PurchaseTotals = {
  readonly purchaseCount: bigint;
  readonly customerCount: bigint;
  readonly revenueInCents: bigint;
  /** The one currency of the matching purchases; null where none or several. */
  readonly currency: string | null;
  readonly mixedCurrencies: boolean;
};

export type PurchaseStats = PurchaseTotals & {
  /** Revenue descending, then count descending, then key ascending, null last. */
  readonly groups: readonly PurchaseGroup[];
  readonly groupsTruncated: boolean;
};

/** The statistics of no purchase. */
export const emptyStats: PurchaseStats = {
  purchaseCount: 0n,
  customerCount: 0n,
  revenueInCents: 0n,
  currency: null,
  mixedCurrencies: false,
  groups: [],
  groupsTruncated: false,
};

/** What all purchases that match some filters are read from. */
export type ExportSource =
  /** Some at a time, read as they are asked for: memory stays bounded whatever their number. */
  | { readonly purchases: AsyncIterable<readonly Purchase[]> }
  /** An open file of the DuckDB layout, which never changes: also of what does not match. */
  | { readonly descriptor: number };

/** An answer and the instant (microseconds since 1970) of the data it shows. */
export type AsOf<Answer> = { readonly answer: Answer; readonly asOf: bigint };

/** Data that never change, and the instant up to which they are known to be everything. */
export type DataVersion = { readonly name: string; readonly asOf: bigint };

/**
 * What answers questions about purchases, in the words of the domain. Every
 * engine gives the same answer to the same question over the same rows; the
 * contract test holds them to it.
 *
 * A method rejects with UnknownCursorError where a cursor names no purchase of
 * the organization, with QueueFullError where too many wait already, and
 * with the signal's reason once the signal is aborted. `client` names whose share of the
 * engine a query takes; by default it is the organization's.
 */
export interface PurchaseAnswers {
  list(
    organizationId: bigint,
    query: PurchaseListQuery,
    signal?: AbortSignal,
    client?: string,
  ): Promise<AsOf<PurchasePage>>;

  /** Null where the organization has no such purchase. */
  get(
    organizationId: bigint,
    purchaseId: bigint,
    signal?: AbortSignal,
    client?: string,
  ): Promise<AsOf<Purchase | null>>;

  stats(
    organizationId: bigint,
    query: PurchaseStatsQuery,
    signal?: AbortSignal,
    client?: string,
  ): Promise<AsOf<PurchaseStats>>;

  /**
   * Gives `take` what all purchases that match are read from, in no promised order, all
   * of one instant and each exactly once. Once `take` has settled, everything that was
   * held for it is let go; the signal that it is given tells it to end, because no more
   * will come. Resolves with what `take` gives.
   */
  export<Result>(
    organizationId: bigint,
    filters: PurchaseFilters,
    take: (source: AsOf<ExportSource>, signal: AbortSignal) => Promise<Result>,
    signal?: AbortSignal,
  ): Promise<Result>;

  /** The instant up to which the engine has the organization's purchases; null where it has none. */
  freshness(organizationId: bigint): Promise<bigint | null>;

  /**
   * Names the data that the engine answers from at present: where two answers to a
   * question come from data of one name, they are the same. Null where data may
   * change under its name.
   */
  version(organizationId: bigint): Promise<DataVersion | null>;

  /**
   * Resolves once the engine answers from data of `instant` or later, and does what it
   * can to hasten that. Ends with the signal alone where that never comes.
   */
  reach(organizationId: bigint, instant: bigint, signal: AbortSignal): Promise<void>;
}

export interface PurchaseEngine extends PurchaseAnswers {
  /**
   * The same, from nothing but data of this source: of one organization of one database
   * (postgres/source-identity.ts). Whatever answers a request comes from the source that
   * its key belongs to.
   */
  forSource(source: string): PurchaseAnswers;

  close(): Promise<void>;
}

export class UnknownCursorError extends Error {
  override readonly name = 'UnknownCursorError';
}

/** Thrown where an engine does not have an organization's purchases, or not any more: another one must answer. */
export class NoGenerationError extends Error {
  override readonly name = 'NoGenerationError';
}

/** As many queries are in the queue as may be; a moment later there may be room again. */
export class QueueFullError extends Error {
  override readonly name = 'QueueFullError';
}

/** Cents per purchase, rounded half away from zero; 0 where there is none. */
export function averageTicket(revenueInCents: bigint, purchaseCount: bigint): bigint {
  if (purchaseCount === 0n) return 0n;
  const magnitude = revenueInCents < 0n ? -revenueInCents : revenueInCents;
  const rounded = (2n * magnitude + purchaseCount) / (2n * purchaseCount);
  return revenueInCents < 0n ? -rounded : rounded;
}
