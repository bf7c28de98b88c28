import type pg from 'pg';
import { applyStaged, inTransaction, replaceStaged } from './apply.ts';
import { applyFew, few } from './apply-few.ts';
import type { PurchaseFile } from './purchase-file.ts';
import { streamChanges } from './source.ts';
import { createStaging, type StagedPurchase, stage } from './staging.ts';
import { type Watermark, writeWatermark } from './watermark.ts';

/** Gives the watermark of the snapshot whose changes are applied, once it may be written. */
export type Confirm = () => Promise<Watermark>;

/**
 * Applies what changed since the file's watermark and moves that to the snapshot of
 * `source`. Gives the number of changes; without any the watermark stays, for the file
 * shows the same either way.
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
    if (first.length === 0) return 0;
    const watermark = await confirm();
    let count = first.length;
    if (count <= few) {
      await applyFew(file, first, watermark);
    } else {
      await createStaging(file.connection);
      count = await stage(file.connection, chain(first, changes), signal);
      await applyStaged(file, watermark);
    }
    file.watermark = watermark;
    return count;
  } finally {
    // Whatever happens: the connection can do nothing else before.
    await changes.return(undefined);
  }
}

/** The first changes; more than `few` where there are more. */
async function takeFew(changes: AsyncIterator<StagedPurchase>): Promise<StagedPurchase[]> {
  const taken: StagedPurchase[] = [];
  while (taken.length <= few) {
    const next = await changes.next();
    if (next.done) break;
    taken.push(next.value);
  }
  return taken;
}

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
  if (file.progress === null) throw new Error('no load is under way');
  const { organizationId, snapshot } = file.progress.since;
  const changes = streamChanges(source, organizationId, snapshot);
  try {
    await createStaging(file.connection);
    await stage(file.connection, changes, signal);
  } finally {
    // As above.
    await changes.return(undefined);
  }
  const watermark = await confirm();
  await replaceStaged(file, watermark);
  file.progress = null;
  file.watermark = watermark;
}
