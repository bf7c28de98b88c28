import type pg from 'pg';
import { streamChanges } from '../capture/changes.ts';
import {
  completeLoad,
  type Watermark,
  writeLoadProgress,
  writeWatermark,
} from '../capture/watermark.ts';
import { duckdbWriteFactor, requireSpace } from '../files/disk-space.ts';
import type { PurchaseFile } from '../files/purchase-file.ts';
import { applySmallBatch, smallBatchRows } from './apply-small-batch.ts';
import { createStaging, dropStaging, type StagedPurchase, stage, textBytesOf } from './staging.ts';
import { applyStaged, insertStaged, inTransaction, isStaged } from './write-staged.ts';

/** Bytes of text that one transaction applies: DuckDB keeps updated texts in memory until COMMIT. */
const partTextBytes = 64 * 2 ** 20;
const smallBatchBytes = 16 * 2 ** 20;
/** Bytes of a purchase besides its texts. */
const rowBytes = 256;

/** Makes the snapshot of the changes durable, and returns its watermark. */
export type Confirm = () => Promise<Watermark>;

/**
 * Applies the changes since the file's watermark, moves the watermark to the snapshot of
 * `source`, and returns the number of changes. Without changes the watermark stays.
 *
 * Changes with much text take several transactions. The last one moves the watermark; the
 * others move only its token. After a failure between them, some purchases are newer than the
 * watermark. The next call applies all changes since the watermark again, and nothing is
 * published before.
 */
export async function applyChanges(
  source: pg.ClientBase,
  file: PurchaseFile,
  confirm: Confirm,
  signal: AbortSignal,
): Promise<number> {
  if (file.watermark === null) throw new Error('the file has no watermark');
  const { organizationId, snapshot } = file.watermark;
  const changes = streamChanges(source, organizationId, snapshot);
  try {
    const first = await takeSmallBatch(changes);
    signal.throwIfAborted();
    if (first.purchases.length === 0) return 0;
    const watermark = await confirm();
    let count = first.purchases.length;
    if (first.isAll) {
      await requireSpaceFor(file, first.textBytes, count);
      await applySmallBatch(file, first.purchases, watermark);
    } else {
      const all = chain(first.purchases, changes);
      const begun = { ...file.watermark, token: watermark.token };
      count = await applyInParts(file, all, signal, (isLast) =>
        applyStaged(file, () =>
          writeWatermark(file.connection, file.catalog, isLast ? watermark : begun),
        ),
      );
    }
    file.watermark = watermark;
    return count;
  } finally {
    // The connection runs no other statement before the cursor is closed.
    await changes.return(undefined);
  }
}

/** Takes the first changes. `isAll` is false if they are too many for a small batch. */
async function takeSmallBatch(changes: AsyncIterator<StagedPurchase>) {
  const purchases: StagedPurchase[] = [];
  let textBytes = 0;
  while (purchases.length <= smallBatchRows && textBytes <= smallBatchBytes) {
    const next = await changes.next();
    if (next.done) return { purchases, textBytes, isAll: true };
    purchases.push(next.value);
    textBytes += textBytesOf(next.value);
  }
  return { purchases, textBytes, isAll: false };
}

/** Stages the changes in parts, calls `apply` after each, and returns the number of changes. */
async function applyInParts(
  file: PurchaseFile,
  changes: AsyncIterator<StagedPurchase>,
  signal: AbortSignal,
  apply: (isLast: boolean) => Promise<void>,
): Promise<number> {
  let count = 0;
  for (;;) {
    await createStaging(file.connection);
    const staged = await stage(file.connection, changes, signal, partTextBytes);
    await requireSpaceFor(file, staged.textBytes, staged.purchases);
    await apply(staged.isLast);
    count += staged.purchases;
    if (staged.isLast) break;
  }
  await dropStaging(file.connection);
  return count;
}

const requireSpaceFor = ({ directory }: PurchaseFile, textBytes: number, purchases: number) =>
  requireSpace(directory, duckdbWriteFactor * (textBytes + purchases * rowBytes));

async function* chain(
  first: readonly StagedPurchase[],
  rest: AsyncIterable<StagedPurchase>,
): AsyncGenerator<StagedPurchase> {
  yield* first;
  yield* rest;
}

/** Moves the watermark of a file that shows all changes. */
export async function moveWatermark(file: PurchaseFile, confirm: Confirm): Promise<void> {
  const { connection, catalog } = file;
  const watermark = await confirm();
  await inTransaction(connection, () => writeWatermark(connection, catalog, watermark));
  file.watermark = watermark;
}

/**
 * Applies the changes since the load began, and completes the load. The file may hold a
 * changed purchase twice or not at all, so changed purchases are replaced and not updated.
 */
export async function finishLoad(
  source: pg.ClientBase,
  file: PurchaseFile,
  confirm: Confirm,
  signal: AbortSignal,
): Promise<void> {
  const { connection, catalog, progress } = file;
  if (progress === null) throw new Error('the file has no load in progress');
  const { organizationId, snapshot } = progress.since;
  const changes = streamChanges(source, organizationId, snapshot);
  const watermark = await confirm();
  const begun = { ...progress, since: { ...progress.since, token: watermark.token } };
  try {
    await applyInParts(file, changes, signal, (isLast) =>
      insertStaged(file, isStaged, () =>
        isLast
          ? completeLoad(connection, catalog, watermark)
          : writeLoadProgress(connection, catalog, begun),
      ),
    );
  } finally {
    // See applyChanges.
    await changes.return(undefined);
  }
  file.progress = null;
  file.watermark = watermark;
}
