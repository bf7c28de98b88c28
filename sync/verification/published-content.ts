import type { Watermark } from '../capture/watermark.ts';
import type { PurchaseRange } from './purchase-range.ts';

/** The published purchases of an organization. No other generation of the organization ever has the name. */
export type PublishedGeneration = Watermark & { readonly name: string };

/** The count of purchases, and the sum of their hashes (checksums.ts). */
export type Checksum = { readonly count: number; readonly sum: bigint };

export type RowHash = readonly [id: bigint, hash: bigint];

/**
 * The purchases of a generation, in a store. They stay readable if the worker publishes another
 * generation. Methods reject with DamagedGenerationError if the generation is damaged.
 */
export type PublishedContent = {
  readonly generation: PublishedGeneration;
  /** Rejects if statistics would be wrong although the purchases are equal to those of Postgres. */
  requireConsistent(): Promise<void>;
  /** The ids of changed purchases, which the methods below exclude from now on. */
  exclude(changed: AsyncIterable<bigint>): Promise<void>;
  checksum(range: PurchaseRange): Promise<Checksum>;
  rowHashes(range: PurchaseRange): Promise<readonly RowHash[]>;
};

/** An organization's published generations, one at a time. */
export type PublishedContents = {
  /** Opens the newest generation, unless it is open; null if nothing is published. */
  newest(): Promise<PublishedContent | null>;
  close(): Promise<void>;
};

/** The published generation cannot be read, or contradicts itself. */
export class DamagedGenerationError extends Error {}

/** The published generation cannot be compared with Postgres now. */
export class IncomparableError extends Error {
  readonly isPublished: boolean;
  constructor(message: string, isPublished = true) {
    super(message);
    this.isPublished = isPublished;
  }
}
