import type { Purchase } from './purchase.ts';
import type { Waiters } from './waiters.ts';

/** A purchase as it is now, or null if it was deleted or moved to another organization. */
export type PurchaseChange = { readonly id: bigint; readonly purchase: Purchase | null };

export type ChangesQuery = {
  /** A position, as a page states it. Null: the present end of the feed. */
  readonly after: string | null;
  readonly limit: number;
};

export type ChangesPage = {
  /** Each purchase once, in the order of its last change before `next`. */
  readonly changes: readonly PurchaseChange[];
  /** False if the changes before `next` are all that the instant of the page includes. */
  readonly hasMore: boolean;
  /** The name of a feed or log, and numbers, which clients do not interpret. */
  readonly next: string;
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
 * The changes of purchases of one source (`servedSource` in postgres/connection/source-identity.ts). Methods reject with
 * NoChangeFeedError until its purchases are published.
 */
export interface ChangeFeed {
  /** Rejects with UnknownFeedPositionError if the feed does not have the position. */
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

/**
 * Reads a page, and once more whenever there may be changes, while it is empty and the time is not over.
 * `readOnce` returns it with what to wait for.
 */
export async function readOrWait<Wanted>(
  waiters: Waiters<Wanted>,
  { after }: ChangesQuery,
  { waitMs = 0, signal, ended }: Waiting,
  readOnce: () => Promise<{ readonly page: ChangesPage; readonly wanted: Wanted }>,
): Promise<ChangesPage> {
  const deadline = performance.now() + waitMs;
  for (;;) {
    const { page, wanted } = await readOnce();
    const isEmpty = page.changes.length === 0 && !page.hasMore && after !== null;
    if (!isEmpty || performance.now() >= deadline || ended?.aborted === true) return page;
    await waiters.wait({ ...wanted, deadline }, signal, ended);
  }
}

export class NoChangeFeedError extends Error {
  override readonly name = 'NoChangeFeedError';
}

/** The changes since a position are not known, or not any more: a copy must be made again. */
export class UnknownFeedPositionError extends Error {
  override readonly name = 'UnknownFeedPositionError';
}
