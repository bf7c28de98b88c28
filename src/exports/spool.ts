import { EventEmitter, once } from 'node:events';
import { mkdir, open, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { freeBytes } from '../process/disk-space.ts';

const readBytes = 128 * 1024;
/** Of bytes that the reader has not read. */
const maxUnreadBytes = 2 ** 30;
/** Stays free on the disk. */
const minFreeBytes = 2 ** 30;
const freeBytesEvery = 16 * 2 ** 20;

/**
 * Yields the bytes of `parts`, which it reads without waiting for the reader: they go through a file
 * that has no name. Beyond the limits above, it waits.
 */
export async function* spool(
  parts: AsyncGenerator<Uint8Array, void>,
  path: string,
): AsyncGenerator<Uint8Array, void> {
  const directory = dirname(path);
  await mkdir(directory, { recursive: true });
  const file = await open(path, 'wx+');
  await rm(path);
  const progress = new EventEmitter();
  let [written, read] = [0, 0];
  let [isOver, isClosed] = [false, false];

  const write = async () => {
    let checkedAt = Number.NEGATIVE_INFINITY;
    let isDiskFull = false;
    for await (const part of parts) {
      if (written - checkedAt >= freeBytesEvery || isDiskFull) {
        isDiskFull = freeBytes(directory) < minFreeBytes;
        checkedAt = written;
      }
      const mustWait = () => written > read && (isDiskFull || written - read > maxUnreadBytes);
      while (!isClosed && mustWait()) await once(progress, 'read');
      if (isClosed) return;
      await file.writeFile(part);
      written += part.length;
      progress.emit('written');
    }
  };
  const writing = write().finally(() => {
    isOver = true;
    progress.emit('written');
  });
  writing.catch(() => {});
  try {
    while (read < written || !isOver) {
      if (read === written) {
        await once(progress, 'written');
        continue;
      }
      const piece = Buffer.allocUnsafe(Math.min(readBytes, written - read));
      const { bytesRead } = await file.read(piece, 0, piece.length, read);
      read += bytesRead;
      progress.emit('read');
      yield piece.subarray(0, bytesRead);
    }
    await writing;
  } finally {
    isClosed = true;
    progress.emit('read');
    await writing.catch(() => {});
    await file.close();
  }
}
