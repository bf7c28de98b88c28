import type pg from 'pg';
import sql from 'sql-template-tag';
import { queryRows } from '../../src/duckdb/connection.ts';
import type { PublishedGeneration } from '../../src/purchase-store/published-generation.ts';
import { currentPurchases } from '../../src/purchase-store/relations.ts';
import { bringUpToDate } from '../apply/apply-changes.ts';
import { canApplyChangesSince } from '../capture/log-sufficiency.ts';
import type { Watermark } from '../capture/watermark.ts';
import type { DeltaFile } from '../files/delta-file.ts';
import type { OrganizationFiles } from '../files/organization-files.ts';
import { deltaContent } from '../verification/file-content.ts';
import { countDifferences } from '../verification/verify.ts';
import { compact } from './compact.ts';
import { type LoadOptions, loadPurchases } from './load.ts';

export type BuildOptions = LoadOptions & {
  readonly files: OrganizationFiles;
  /** The published generation to compact; null to load from Postgres. */
  readonly generation: PublishedGeneration | null;
  /** The new files replace a published generation, so all content is compared with Postgres first. */
  readonly isReplacing: boolean;
};

/**
 * Builds a base, and the delta `next` that replaces the live one. A load keeps an earlier build that
 * can be brought up to date with changes.
 */
export async function buildNext(options: BuildOptions): Promise<DeltaFile> {
  const { files, database, generation, isReplacing } = options;
  const existing = generation === null ? await files.open('next') : null;
  const isBuilt = existing !== null && (await canApplyChangesSince(database, existing.watermark));
  if (!isBuilt) await files.remove('next');
  const next = isBuilt ? existing : await build(options);
  if (generation !== null || !isReplacing) return next;
  const differences = await countDifferences(deltaContent(next), options);
  if (differences === 0) return next;
  await files.remove('next');
  throw new Error(`the new files differ from Postgres in ${differences} ranges or dictionaries`);
}

async function build(options: BuildOptions): Promise<DeltaFile> {
  const { files, generation } = options;
  const base = await files.openBase();
  let watermark: Watermark;
  if (generation === null) {
    await loadPurchases(base, options);
    if (base.progress === null) throw new Error('the base has no load in progress');
    watermark = base.progress.since;
  } else {
    watermark = await compact(base, files.context, generation, options);
  }
  const next = await files.createNext(await files.finishBase(), watermark);
  if (generation === null) await applyChangesSinceLoad(next, options);
  return next;
}

/**
 * Applies the changes since the load began, and compares the totals with Postgres. The base may
 * hold a changed purchase twice or not at all: the delta supersedes what it has.
 */
async function applyChangesSinceLoad(next: DeltaFile, options: BuildOptions): Promise<void> {
  const { organizationId, files, signal } = options;
  const outcome = await bringUpToDate(options, next, signal, async (source) => {
    if (await hasSameTotals(source, next, organizationId)) return;
    await files.remove('next');
    throw new Error('count and total value of the loaded purchases differ from Postgres');
  });
  if (typeof outcome !== 'string') return;
  await files.remove('next');
  throw new Error(`the load must start over: ${outcome}`);
}

async function hasSameTotals(
  source: pg.ClientBase,
  { connection, catalogs }: DeltaFile,
  organizationId: bigint,
): Promise<boolean> {
  const { rows } = await source.query<{ totals: string }>(sql`
    select count(*) || ' worth ' || coalesce(sum(purchase_value_in_cents), 0) as totals
    from purchases where organization_id = ${organizationId}`);
  const [row] = await queryRows(
    connection,
    sql`
      select count(*) || ' worth ' || coalesce(sum(purchase_value_in_cents), 0)
      from ${currentPurchases(catalogs)}`,
  );
  return row?.[0] === rows[0]?.totals;
}
