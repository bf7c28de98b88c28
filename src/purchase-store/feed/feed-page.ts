import { closeSync, fstatSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { purchaseFromRow } from '../../domain/purchase.ts';
import { type ChangesPage, UnknownFeedPositionError } from '../../domain/purchase-changes.ts';
import { decodeRecords } from '../delta/decode-records.ts';
import type { Current } from '../format/current.ts';
import {
  type Batch,
  batchBefore,
  checksumBefore,
  DamagedLogError,
  linesById,
  readLines,
  scanLog,
} from '../format/log.ts';
import type { Published } from '../ticks/published.ts';
import type { FeedPosition } from './feed-position.ts';

/** A part of a log that belongs to the change feed. The last one grows: its end is null. */
type FeedLog = { readonly log: string; readonly begin: number; readonly end: number | null };

/**
 * The parts of logs of the change feed: replaced logs, then the log of CURRENT after `logBytes`. Together they
 * have all changes, in the order of publication.
 */
const feedLogs = ({ replacedLogs, log, logBytes }: Current): FeedLog[] => [
  ...replacedLogs,
  { log, begin: logBytes, end: null },
];

const beginOf = ({ log, begin }: FeedLog): FeedPosition => ({
  log,
  batch: begin,
  record: 0,
  checksum: null,
});

/** The begin of the log of the feed that follows all replaced logs. */
export const beginOfLog = (current: Current): FeedPosition =>
  beginOf({ log: current.log, begin: current.logBytes, end: null });

/** A page ends after this number of bytes, even with few changes: a purchase may change often. */
const maxPageBytes = 512 * 2 ** 10;
/** A page reads several batches at once (`maxBatchBytes` in log.ts). */
const windowBytes = 256 * 2 ** 10;

type Page = {
  /** The last line of each purchase, by id. */
  readonly lines: Map<string, Buffer>;
  readonly limit: number;
  bytesLeft: number;
  next: FeedPosition;
  /** A limit is reached, and more changes follow. */
  isFull: boolean;
};

/**
 * The changes of published ticks after a position. Throws UnknownFeedPositionError if the feed does not have
 * it, and DamagedLogError if the log of CURRENT is damaged or missing.
 */
export function readFeedPage(
  directory: string,
  published: Published,
  { after, limit }: { readonly after: FeedPosition; readonly limit: number },
): Pick<ChangesPage, 'changes' | 'hasMore'> & { readonly next: FeedPosition } {
  const logs = feedLogs(published.files);
  const first = logs.findIndex(({ log }) => log === after.log);
  if (first === -1) throw new UnknownFeedPositionError();
  const page: Page = {
    ...{ lines: new Map(), limit, bytesLeft: maxPageBytes, next: after, isFull: false },
  };
  for (const [index, feedLog] of logs.slice(first).entries()) {
    if (index > 0) page.next = beginOf(feedLog);
    readFeedLog(directory, feedLog, published, page);
    if (page.isFull) break;
  }
  const changes = decodeRecords(Buffer.concat([...page.lines.values()])).map(({ id, row }) => ({
    id,
    purchase: row && purchaseFromRow(row),
  }));
  return { changes, hasMore: page.isFull, next: page.next };
}

/** Adds the changes of the log that contains `page.next`, after this position. */
function readFeedLog(directory: string, feedLog: FeedLog, published: Published, page: Page): void {
  const descriptor = openLog(directory, feedLog);
  try {
    const end = feedLog.end ?? sizeOf(descriptor, published);
    requirePosition(descriptor, feedLog, end, page.next);
    // All batches of a replaced log up to its end are published.
    const visible = feedLog.end === null ? published.tick : Number.POSITIVE_INFINITY;
    for (const batch of batchesAfter(descriptor, page.next, end, visible)) {
      addBatch(descriptor, feedLog.log, batch, page);
      if (page.isFull) return;
    }
    if (feedLog.end !== null && page.next.batch !== feedLog.end) {
      throw new UnknownFeedPositionError();
    }
  } catch (error) {
    // Nothing repairs a replaced log.
    const isBeyondRepair = feedLog.end !== null && error instanceof DamagedLogError;
    throw isBeyondRepair ? new UnknownFeedPositionError() : error;
  } finally {
    closeSync(descriptor);
  }
}

function openLog(directory: string, { log, end }: FeedLog): number {
  try {
    return openSync(join(directory, log), 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw end === null ? new DamagedLogError('it is missing') : new UnknownFeedPositionError();
  }
}

function sizeOf(descriptor: number, { logEnd }: Published): number {
  const { size } = fstatSync(descriptor);
  if (size < logEnd) throw new DamagedLogError(`it ends before ${logEnd}`);
  return size;
}

function requirePosition(
  descriptor: number,
  feedLog: FeedLog,
  end: number,
  { batch, record, checksum }: FeedPosition,
): void {
  const isWithin = batch >= feedLog.begin && batch <= end;
  const isBegin = batch === feedLog.begin && record === 0 && checksum === null;
  const isKnown =
    isBegin ||
    (isWithin && (record > 0 || checksum === checksumBefore(descriptor, feedLog.begin, batch)));
  if (!isKnown || (checksum === null && !isBegin)) throw new UnknownFeedPositionError();
}

/** The batches after a position. If the position is within a batch, the whole batch comes first. */
function* batchesAfter(
  descriptor: number,
  position: FeedPosition,
  end: number,
  published: number,
): Generator<Batch> {
  const batches = scanLog(descriptor, position.batch, end, published, windowBytes);
  if (position.record > 0) {
    const divided = firstBatch(batches);
    if (divided?.checksum !== position.checksum) throw new UnknownFeedPositionError();
    yield divided;
  }
  yield* batches;
}

/** Null if no batch begins at the position, because clients may send any position. */
function firstBatch(batches: Generator<Batch>): Batch | null {
  try {
    const { value } = batches.next();
    return value ?? null;
  } catch (error) {
    if (error instanceof DamagedLogError) return null;
    throw error;
  }
}

function addBatch(descriptor: number, log: string, batch: Batch, page: Page): void {
  const { begin, end, checksum, records } = batch;
  const skipped = page.next.record;
  if (skipped > records) throw new UnknownFeedPositionError();
  let record = 0;
  for (const [id, line] of linesById(readLines(descriptor, batch))) {
    if (record >= skipped) {
      page.isFull = page.bytesLeft <= 0 || (page.lines.size === page.limit && !page.lines.has(id));
      if (page.isFull) {
        if (record > 0) page.next = { log, batch: begin, record, checksum };
        return;
      }
      page.lines.delete(id);
      page.lines.set(id, line);
      page.bytesLeft -= line.length;
    }
    record += 1;
  }
  page.next = { log, batch: end, record: 0, checksum };
}

/**
 * Finds the end of the published batches of CURRENT's log, after a position. Reads the batches only if
 * some have later ticks.
 */
export function findEnd(directory: string, published: Published, from: FeedPosition): FeedPosition {
  const { log } = published.files;
  let end = from;
  const descriptor = openLog(directory, { log, begin: from.batch, end: null });
  try {
    const size = sizeOf(descriptor, published);
    if (size < from.batch) throw new DamagedLogError('it has become shorter');
    const last = batchBefore(descriptor, from.batch, size);
    if (last !== null && last.tick <= published.tick) {
      return { log, batch: size, record: 0, checksum: last.checksum };
    }
    for (const batch of scanLog(descriptor, from.batch, size, published.tick)) {
      end = { log, batch: batch.end, record: 0, checksum: batch.checksum };
    }
    return end;
  } finally {
    closeSync(descriptor);
  }
}
