import type pg from 'pg';
import { applyStaged, inTransaction, replaceStaged } from './apply.ts';
import type { PurchaseFile } from './purchase-file.ts';
import { type SourceSnapshot, streamChanges } from './source.ts';
import { createStaging, stage } from './staging.ts';
import { writeWatermark } from './watermark.ts';

/**
 * Applies what changed since the file's watermark and moves that to `now`, the
 * snapshot of `source`. Gives the number of changes; without any the watermark
 * stays, for the file shows the same either way.
 */
export async function applyChanges(
  source: pg.ClientBase,
  file: PurchaseFile,
  now: SourceSnapshot,
  signal: AbortSignal,
): Promise<number> {
  if (file.watermark === null) throw new Error('changes need a watermark to start from');
  const { organizationId, snapshot } = file.watermark;
  const changes = await stageChanges(source, file, { organizationId, snapshot }, signal);
  if (changes === 0) return 0;
  const watermark = { ...now, organizationId };
  await applyStaged(file, watermark);
  file.watermark = watermark;
  return changes;
}

/** Says of a file to which `now`'s changes were applied that it shows that moment. */
export async function moveWatermark(file: PurchaseFile, now: SourceSnapshot): Promise<void> {
  if (file.watermark === null) throw new Error('there is no watermark to move');
  const { connection, catalog } = file;
  const watermark = { ...now, organizationId: file.watermark.organizationId };
  await inTransaction(connection, () => writeWatermark(connection, catalog, watermark));
  file.watermark = watermark;
}

/** Applies what changed since the file's load began, which completes the load. */
export async function finishLoad(
  source: pg.ClientBase,
  file: PurchaseFile,
  now: SourceSnapshot,
  signal: AbortSignal,
): Promise<void> {
  if (file.progress === null) throw new Error('no load is under way');
  const { organizationId, snapshot } = file.progress.since;
  await stageChanges(source, file, { organizationId, snapshot }, signal);
  const watermark = { ...now, organizationId };
  await replaceStaged(file, watermark);
  file.progress = null;
  file.watermark = watermark;
}

async function stageChanges(
  source: pg.ClientBase,
  { connection }: PurchaseFile,
  since: { readonly organizationId: bigint; readonly snapshot: string },
  signal: AbortSignal,
): Promise<number> {
  await createStaging(connection);
  const changes = streamChanges(source, since.organizationId, since.snapshot);
  try {
    return await stage(connection, changes, signal);
  } finally {
    // Whatever happens: the connection can do nothing else before.
    await changes.return(undefined);
  }
}
