import { closeSync, fstatSync, openSync } from 'node:fs';
import { readLines, scanLog } from '../../src/purchase-store/log.ts';
import type { NewLog } from '../files/log-files.ts';
import { visibleAtOnce } from './new-files.ts';

/** Copies the batches of published ticks after `from` to a log that is not published. */
export function copyBatches(path: string, log: NewLog, published: number, from = 0): void {
  const descriptor = openSync(path, 'r');
  try {
    const { size } = fstatSync(descriptor);
    for (const batch of scanLog(descriptor, from, size, published)) {
      const lines = readLines(descriptor, batch);
      log.append({ lines, records: batch.records }, visibleAtOnce);
    }
  } finally {
    closeSync(descriptor);
  }
}
