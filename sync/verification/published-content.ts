import type { Watermark } from '../capture/watermark.ts';
import type { DictionaryDamage } from './dictionaries.ts';
import type { PurchaseRange } from './purchase-range.ts';

/** What is published of an organization. No other content of it ever has the name. */
export type Generation = Watermark & { readonly name: string };

/** The count of purchases, and the sum of their hashes (checksums.ts). */
export type Checksum = { readonly count: number; readonly sum: bigint };

export type RowHash = { readonly id: bigint; readonly created: bigint; readonly hash: bigint };

/** A purchase that changed, and whether Postgres has it in the compared range. */
export type ChangedId = readonly [id: bigint, inPostgres: boolean];

export type Bounds = {
  readonly count: bigint;
  readonly created: readonly [first: bigint, last: bigint];
  readonly ids: readonly [first: bigint, last: bigint];
};

/**
 * The purchases of a generation, in a store. They stay readable if the worker publishes another
 * generation. Methods reject with UnreadableError if only a rebuild repairs the generation.
 */
export type PublishedContent = {
  readonly generation: Generation;
  /** Damage of dictionaries. Rejects if superseded rows differ from those that they supersede. */
  findDamage(): Promise<DictionaryDamage[]>;
  /** The changed purchases, which `checksums` and `rowHashes` exclude from now on. */
  exclude(changed: AsyncIterable<ChangedId>): Promise<void>;
  /** The number of changed purchases that Postgres or the content has in a range. */
  countExcluded(range: PurchaseRange): Promise<number>;
  checksums(ranges: readonly PurchaseRange[]): Promise<Checksum[]>;
  rowHashes(range: PurchaseRange): Promise<RowHash[]>;
  /** The ids of the purchases of some ranges, each at least once. */
  ids(ranges: readonly PurchaseRange[]): Promise<bigint[]>;
  bounds(range: PurchaseRange): Promise<Bounds>;
  /** The numbers of purchases in consecutive bins of `width`, in ascending order. */
  histogram(
    range: PurchaseRange,
    axis: 'created' | 'id',
    first: bigint,
    width: bigint,
  ): Promise<(readonly [bin: bigint, count: bigint])[]>;
};

/** An organization's published generations, one at a time. */
export type PublishedContents = {
  /**
   * Opens the newest generation, unless it is open; null if nothing is published. Rejects with
   * IncomparableError if the generation has another layout.
   */
  newest(): Promise<PublishedContent | null>;
  close(): Promise<void>;
};

/** The published generation cannot be read, or differs from its description. */
export class UnreadableError extends Error {}

/** The published generation cannot be compared with Postgres now. */
export class IncomparableError extends Error {
  readonly isPublished: boolean;
  constructor(message: string, isPublished = true) {
    super(message);
    this.isPublished = isPublished;
  }
}

/** Throws if another version published the generation: this version cannot read its layout. */
export function requireLayout(published: number, expected: number): void {
  if (published === expected) return;
  throw new IncomparableError(
    'another version published the generation, and the worker will load it again',
  );
}
