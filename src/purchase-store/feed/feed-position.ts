import { UnknownFeedPositionError } from '../../domain/purchase-changes.ts';

/** A position in the change feed of an organization, between two records of its logs. */
export type FeedPosition = {
  /** No other log of any organization has this name. */
  readonly log: string;
  /** The bytes of the log before the batch of the next record. */
  readonly batch: number;
  /** The records of this batch before the position. If there are any, the batch exists. */
  readonly record: number;
  /**
   * The checksum of this batch, or of the batch before if `record` is 0; null at the begin of a log. After
   * a crash of the machine, other batches may follow at the same place.
   */
  readonly checksum: number | null;
};

// The name of the log, then numbers to the base 36.
const pattern = /^([0-9a-f]{12})\.([0-9a-z]{1,10})\.([0-9a-z]{1,10})\.([0-9a-z]{0,7})$/;
const base = 36;

export const encodePosition = ({ log, batch, record, checksum }: FeedPosition): string =>
  [
    log.replace(/^log-|\.tsv$/g, ''),
    batch.toString(base),
    record.toString(base),
    checksum?.toString(base) ?? '',
  ].join('.');

/** Throws UnknownFeedPositionError if the text comes from another store. */
export function decodePosition(text: string): FeedPosition {
  const [, log, batch = '', record = '', checksum = ''] = pattern.exec(text) ?? [];
  if (log === undefined) throw new UnknownFeedPositionError();
  return {
    log: `log-${log}.tsv`,
    batch: Number.parseInt(batch, base),
    record: Number.parseInt(record, base),
    checksum: checksum === '' ? null : Number.parseInt(checksum, base),
  };
}
