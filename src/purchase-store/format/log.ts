import { closeSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from 'node:fs';
import { crc32 } from 'node:zlib';

/**
 * An organization's log: an append-only file of the changes since its base, as lines of fields that
 * tabs separate. Postgres writes the records (COPY in text format): `\N` is NULL, and line breaks,
 * tabs and backslashes within texts are escaped.
 *
 *     t  tick                 the begin of a batch
 *     u  id  customer_id …    a purchase as it is now: the columns of `purchaseColumns`
 *     d  id                   a purchase that was deleted, or moved to another organization
 *     e  tick  records  bytes  total  crc32    the end of the batch
 *
 * The last line says how many records and bytes the batch has before it, and how many records the
 * log has up to there. The checksum covers the whole batch. Applying a batch twice changes nothing.
 * A tick with many records has several batches.
 */
export type Batch = {
  /** Readers apply the batch once this tick is published. */
  readonly tick: number;
  /** Offsets in the log: of the first line, and after the last one. */
  readonly begin: number;
  readonly end: number;
  readonly records: number;
  /** The records of the log up to the end of the batch. */
  readonly totalRecords: number;
  readonly checksum: number;
};

/** Lines of a batch besides its records. */
export const linesPerBatch = 2;

/** The log differs from the content that was appended. Only the message passes from an export process to the API. */
export class DamagedLogError extends Error {
  override readonly name = 'DamagedLogError';

  constructor(reason: string) {
    super(`the log is damaged: ${reason}`);
  }
}

/** The content of a batch. */
export function encodeBatch(
  lines: Buffer,
  { tick, records, totalRecords }: Pick<Batch, 'tick' | 'records' | 'totalRecords'>,
): Buffer {
  const begin = Buffer.from(`t\t${tick}\n`);
  const bytes = begin.length + lines.length;
  const fields = `e\t${tick}\t${records}\t${bytes}\t${totalRecords}\t`;
  // Node 20 returns 0 for some empty buffers.
  const ofLines = lines.length === 0 ? crc32(begin) : crc32(lines, crc32(begin));
  return Buffer.concat([begin, lines, Buffer.from(`${fields}${crc32(fields, ofLines)}\n`)]);
}

const newline = 10;
const tab = 9;
const endOfBatch = Buffer.from('\ne\t');
const [beginMark] = Buffer.from('t');

/**
 * The batches of published ticks in `content`, which begins at `offset` of a log. Throws
 * DamagedLogError if one of them is incomplete, or differs from its checksum. Readers take the
 * published tick before the content, so that the content has all of its batches. An incomplete batch
 * of a later tick is being appended.
 */
export function* readBatches(content: Buffer, offset: number, published: number): Generator<Batch> {
  for (let begin = 0; begin < content.length; ) {
    const firstLine = content.indexOf(newline, begin);
    if (content[begin] !== beginMark) throw damaged(offset + begin);
    if (firstLine === -1) return;
    const tick = Number(content.toString('latin1', begin + 2, firstLine));
    const lastLine = content.indexOf(endOfBatch, firstLine) + 1;
    const end = lastLine === 0 ? 0 : content.indexOf(newline, lastLine) + 1;
    if (end === 0 && tick > published) return;
    // Batches of later ticks are verified too: a flipped bit may have changed the tick in the first line.
    const batch = end === 0 ? null : decodeBatch(content, begin, lastLine, end);
    if (batch?.tick !== tick) throw damaged(offset + begin);
    if (tick > published) return;
    yield { ...batch, begin: offset + begin, end: offset + end };
    begin = end;
  }
}

const damaged = (offset: number): DamagedLogError =>
  new DamagedLogError(`no valid batch begins at ${offset}`);

/** Null if the batch differs from its last line. */
function decodeBatch(content: Buffer, begin: number, lastLine: number, end: number) {
  const line = content.toString('latin1', lastLine, end - 1);
  const [, tick = 0, records = 0, bytes = 0, totalRecords = 0, checksum] = line
    .split('\t')
    .map(Number);
  if (bytes !== lastLine - begin) return null;
  const fields = line.slice(0, line.lastIndexOf('\t') + 1);
  const found = crc32(fields, crc32(content.subarray(begin, lastLine)));
  return found === checksum ? { tick, records, totalRecords, checksum } : null;
}

/** The bytes of a file from `begin` to `end`, or to the end of the file. */
export function readRange(descriptor: number, begin: number, end: number): Buffer {
  const content = Buffer.allocUnsafe(Math.max(0, end - begin));
  let length = 0;
  while (length < content.length) {
    const read = readSync(descriptor, content, length, content.length - length, begin + length);
    if (read === 0) break;
    length += read;
  }
  return content.subarray(0, length);
}

/** The records of a batch, without its first and its last line. */
export function readLines(descriptor: number, { begin, end }: Batch): Buffer {
  const content = readRange(descriptor, begin, end);
  const first = content.indexOf(newline) + 1;
  return content.subarray(first, content.lastIndexOf(endOfBatch) + 1);
}

const windowBytes = 8 * 2 ** 20;

/**
 * The batches of published ticks from `begin` to `end` of a log, as `readBatches`, with bounded memory.
 * Reads `size` bytes at once, and more if a batch is larger.
 */
export function* scanLog(
  descriptor: number,
  begin: number,
  end: number,
  published: number,
  size = windowBytes,
): Generator<Batch> {
  let bytes = size;
  for (let offset = begin; offset < end; ) {
    const until = Math.min(end, offset + bytes);
    const isLast = until === end;
    const before = offset;
    try {
      const window = readRange(descriptor, offset, until);
      for (const batch of readBatches(window, offset, published)) {
        yield batch;
        offset = batch.end;
      }
    } catch (error) {
      // The window may end within a batch.
      if (isLast || !(error instanceof DamagedLogError)) throw error;
    }
    if (isLast) return;
    if (offset === before) bytes *= 2;
  }
}

/** Reads the last line of the batch that ends at `end`; null if no batch after `begin` ends there. */
export function batchBefore(
  descriptor: number,
  begin: number,
  end: number,
): Pick<Batch, 'tick' | 'totalRecords' | 'checksum'> | null {
  const tail = readRange(descriptor, Math.max(begin, end - tailBytes), end).toString('latin1');
  const line = /(?:^|\n)e\t(\d+)\t\d+\t\d+\t(\d+)\t(\d+)\n$/.exec(tail);
  if (line === null) return null;
  const [tick = 0, totalRecords = 0, checksum = 0] = line.slice(1).map(Number);
  return { tick, totalRecords, checksum };
}

/** The checksum of the batch that ends at `end`; null if no batch after `begin` ends there. */
export const checksumBefore = (descriptor: number, begin: number, end: number): number | null =>
  batchBefore(descriptor, begin, end)?.checksum ?? null;

/** Each line of records, with the id of its purchase. */
export function* linesById(lines: Buffer): Generator<[id: string, line: Buffer]> {
  for (let begin = 0; begin < lines.length; ) {
    const end = lines.indexOf(newline, begin) + 1;
    const line = lines.subarray(begin, end);
    const afterId = line.indexOf(tab, 2);
    yield [line.toString('latin1', 2, afterId === -1 ? line.length - 1 : afterId), line];
    begin = end;
  }
}

/** The end of the last batch of a log. */
export type LogEnd = { readonly bytes: number; readonly totalRecords: number };

export const emptyLog: LogEnd = { bytes: 0, totalRecords: 0 };

const tailBytes = 128;

/**
 * Cuts off the batches of later ticks than `published`, which no reader has applied, and returns
 * the end. Throws DamagedLogError if the log has less than `minBytes`, or a published batch is damaged.
 */
export function recoverLog(
  path: string,
  published: number,
  minBytes: number,
  beforeCut: () => void = () => {},
): LogEnd {
  const descriptor = openSync(path, 'r+');
  try {
    const end = findEnd(descriptor, published, minBytes);
    if (end.bytes < fstatSync(descriptor).size) {
      beforeCut();
      ftruncateSync(descriptor, end.bytes);
    }
    return end;
  } finally {
    closeSync(descriptor);
  }
}

/** The end of the published batches, without a change of the log. Throws as `recoverLog` does. */
export function readLogEnd(path: string, published: number, minBytes: number): LogEnd {
  const descriptor = openSync(path, 'r');
  try {
    return findEnd(descriptor, published, minBytes);
  } finally {
    closeSync(descriptor);
  }
}

/** Reads the whole log only if it has batches of later ticks. */
function findEnd(descriptor: number, published: number, minBytes: number): LogEnd {
  const { size } = fstatSync(descriptor);
  if (size < minBytes) throw damaged(size);
  const last = batchBefore(descriptor, 0, size);
  if (last !== null && last.tick <= published) {
    return { bytes: size, totalRecords: last.totalRecords };
  }
  let end = emptyLog;
  for (const batch of scanLog(descriptor, 0, size, published)) {
    end = { bytes: batch.end, totalRecords: batch.totalRecords };
  }
  if (end.bytes < minBytes) throw damaged(end.bytes);
  return end;
}

/** A page of the change feed verifies whole batches, so their size bounds its cost. */
const maxBatchBytes = 64 * 2 ** 10;

/** Splits lines into the content of batches. A longer line is a batch of its own. */
function* splitLines(
  lines: Buffer,
): Generator<{ readonly lines: Buffer; readonly records: number }> {
  let [begin, end, records] = [0, 0, 0];
  while (end < lines.length) {
    const next = lines.indexOf(newline, end) + 1;
    if (records > 0 && next - begin > maxBatchBytes) {
      yield { lines: lines.subarray(begin, end), records };
      [begin, records] = [end, 0];
    }
    end = next;
    records += 1;
  }
  yield { lines: lines.subarray(begin), records };
}

/**
 * Appends records at the end of a log, as one or more batches of a tick, and returns the new end. After a
 * failure, nothing is appended. Throws DamagedLogError if the log does not end at `end`. Not synced to
 * the disk.
 */
export function appendBatches(
  path: string,
  end: LogEnd,
  { tick, lines }: { readonly tick: number; readonly lines: Buffer },
): LogEnd {
  let { totalRecords } = end;
  const batches: Buffer[] = [];
  for (const part of splitLines(lines)) {
    totalRecords += part.records;
    batches.push(encodeBatch(part.lines, { tick, records: part.records, totalRecords }));
  }
  const content = Buffer.concat(batches);
  const descriptor = openSync(path, 'r+');
  try {
    const { size } = fstatSync(descriptor);
    if (size !== end.bytes) throw damaged(size);
    try {
      writeAt(descriptor, content, end.bytes);
    } catch (error) {
      ftruncateSync(descriptor, end.bytes);
      throw error;
    }
  } finally {
    closeSync(descriptor);
  }
  return { bytes: end.bytes + content.length, totalRecords };
}

function writeAt(descriptor: number, content: Buffer, offset: number): void {
  for (let written = 0; written < content.length; ) {
    const left = content.length - written;
    written += writeSync(descriptor, content, written, left, offset + written);
  }
}
