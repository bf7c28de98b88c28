import type pg from 'pg';
import { streamChanges } from '../capture/source.ts';
import {
  completeLoad,
  type Watermark,
  writeLoadProgress,
  writeWatermark,
} from '../capture/watermark.ts';
import { duckdbWriteFactor, requireSpace } from '../files/disk-space.ts';
import type { PurchaseFile } from '../files/purchase-file.ts';
import { applyStaged, inTransaction, replaceStaged } from './apply.ts';
import { applySmallBatch, few } from './apply-small-batch.ts';
import { createStaging, dropStaging, type StagedPurchase, stage, textBytesOf } from './staging.ts';

/** Applied in one transaction: DuckDB keeps updated texts in memory until it is over. */
const partTextBytes = 64 * 2 ** 20;
/** Of a purchase: its numbers, and its place in a row group. */
const rowBytes = 256;

/** Gives the watermark of the snapshot whose changes are applied, once it may be written. */
export type Confirm = () => Promise<Watermark>;

/**
 * Applies what changed since the file's watermark and moves that to the snapshot of
 * `source`. Gives the number of changes; without any the watermark stays, for the file
 * shows the same either way.
 *
 * Long changes are applied in several transactions; the last one moves the watermark, and the
 * others its token alone. After a failure between them the file is ahead of its watermark in
 * some purchases. The next call brings each of them to its newest state, for all changed since
 * the watermark. Nothing is published before that.
 */
export async function applyChanges(
  source: pg.ClientBase,
  file: PurchaseFile,
  confirm: Confirm,
  signal: AbortSignal,
): Promise<number> {
  if (file.watermark === null) throw new Error('changes need a watermark to start from');
  const { organizationId, snapshot } = file.watermark;
  const changes = streamChanges(source, organizationId, snapshot);
  try {
    const first = await takeFew(changes);
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
    // Whatever happens: the connection can do nothing else before.
    await changes.return(undefined);
  }
}

/** Takes changes from the beginning, until they are too many for `applySmallBatch`. */
async function takeFew(changes: AsyncIterator<StagedPurchase>) {
  const purchases: StagedPurchase[] = [];
  let textBytes = 0;
  while (purchases.length <= few && textBytes <= maxFewBytes) {
    const next = await changes.next();
    if (next.done) return { purchases, textBytes, isAll: true };
    purchases.push(next.value);
    textBytes += textBytesOf(next.value);
  }
  return { purchases, textBytes, isAll: false };
}

const maxFewBytes = 16 * 2 ** 20;

/** Stages the changes part by part, and calls `apply` after each. Gives their number. */
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

/** Says of a file to which all changes were applied that it shows that moment. */
export async function moveWatermark(file: PurchaseFile, confirm: Confirm): Promise<void> {
  const { connection, catalog } = file;
  const watermark = await confirm();
  await inTransaction(connection, () => writeWatermark(connection, catalog, watermark));
  file.watermark = watermark;
}

/** Applies what changed since the file's load began, which completes the load. */
export async function finishLoad(
  source: pg.ClientBase,
  file: PurchaseFile,
  confirm: Confirm,
  signal: AbortSignal,
): Promise<void> {
  const { connection, catalog, progress } = file;
  if (progress === null) throw new Error('no load is under way');
  const { organizationId, snapshot } = progress.since;
  const changes = streamChanges(source, organizationId, snapshot);
  const watermark = await confirm();
  const begun = { ...progress, since: { ...progress.since, token: watermark.token } };
  try {
    await applyInParts(file, changes, signal, (isLast) =>
      replaceStaged(file, () =>
        isLast
          ? completeLoad(connection, catalog, watermark)
          : writeLoadProgress(connection, catalog, begun),
      ),
    );
  } finally {
    // As above.
    await changes.return(undefined);
  }
  file.progress = null;
  file.watermark = watermark;
}
