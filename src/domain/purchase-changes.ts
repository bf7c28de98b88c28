import type { Purchase } from './purchase.ts';

/** A position in the change feed of an organization, between two records of its logs. */
export type ChangePosition = {
  /** No other log of any organization has this name. */
  readonly log: string;
  /** The bytes of the log before the batch of the next record. */
  readonly batch: number;
  /** The records of this batch before the position. If there are any, the batch exists. */
  readonly record: number;
  /**
   * Of this batch if `record` is not 0, otherwise of the one before it; null at the begin of a log. After
   * a crash of the machine, other batches may follow at the same place.
   */
  readonly checksum: number | null;
};

/** A purchase as it is now, or null if it was deleted or moved to another organization. */
export type PurchaseChange = { readonly id: bigint; readonly purchase: Purchase | null };

export type ChangesQuery = {
  /** Null: the present end of the feed. */
  readonly after: ChangePosition | null;
  readonly limit: number;
};

export type ChangesPage = {
  /** Each purchase once, in the order of its last change before `next`. */
  readonly changes: readonly PurchaseChange[];
  /** False if the changes before `next` are all that the instant of the page includes. */
  readonly hasMore: boolean;
  readonly next: ChangePosition;
  /** The instant that the organization shows; microseconds since 1970. */
  readonly asOf: bigint;
};

type Waiting = {
  /** The maximum wait for a change, if the page would be empty. */
  readonly waitMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Aborted to end the wait as if its time were over. */
  readonly ended?: AbortSignal | undefined;
};

/**
 * The changes of purchases of one source (postgres/source-identity.ts). Methods reject with
 * NoChangeFeedError until its purchases are published.
 */
export interface ChangeFeed {
  /** Rejects with UnknownPositionError if the feed does not have the position. */
  read(
    organizationId: bigint,
    source: string,
    query: ChangesQuery,
    waiting?: Waiting,
  ): Promise<ChangesPage>;
  freshness(organizationId: bigint, source: string): Promise<bigint>;
  /** Resolves once the feed shows `instant`. */
  waitUntilFresh(
    organizationId: bigint,
    source: string,
    instant: bigint,
    signal: AbortSignal,
  ): Promise<void>;
  close(): void;
}

export class NoChangeFeedError extends Error {
  override readonly name = 'NoChangeFeedError';
}

/** The changes since a position are not known, or not any more: a copy must be made again. */
export class UnknownPositionError extends Error {
  override readonly name = 'UnknownPositionError';
}
