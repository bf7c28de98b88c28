import type pg from 'pg';
import sql, { raw } from 'sql-template-tag';
import { queryRows } from '../../src/duckdb/connection.ts';
import { withSnapshot } from '../../src/postgres/pool.ts';
import { finishLoad } from '../apply/apply-changes.ts';
import { confirmSnapshot, takeSnapshot, whyChangesAreNotEnough } from '../capture/source.ts';
import { type PurchaseFile, reset } from '../files/purchase-file.ts';
import { countDifferences } from '../verification/differences-of-file.ts';
import { type LoadOptions, loadPurchases } from './load.ts';
import { sortGeneration } from './sort-generation.ts';

export type BuildOptions = LoadOptions & {
  /** A published generation to sort anew; null to load from Postgres. */
  readonly generation: string | null;
  /** Whether readers have something that it is to replace: then it is compared with Postgres first. */
  readonly isReplacing: boolean;
};

/**
 * Fills the file that is to take the live one's place, as far as that can go on
 * beside it: when this resolves, the file has a watermark. What was built before
 * and can be brought up to date from there is kept.
 */
export async function buildNextFile(next: PurchaseFile, options: BuildOptions): Promise<void> {
  const isBuilt = next.watermark !== null && (await canBeBroughtUpToDate(next, options));
  if (options.generation !== null) {
    if (!isBuilt) await sortGeneration(next, options.generation);
    return;
  }
  if (!isBuilt) await load(next, options);
  if (!options.isReplacing) return;
  const differences = await countDifferences(next, options);
  if (differences === 0) return;
  await reset(next);
  throw new Error(`what was built differs from Postgres in ${differences} places`);
}

async function canBeBroughtUpToDate(
  { watermark }: PurchaseFile,
  { database, organizationId }: BuildOptions,
): Promise<boolean> {
  if (watermark === null) return false;
  return withSnapshot(database, async (source) => {
    const now = await takeSnapshot(source, organizationId);
    return (await whyChangesAreNotEnough(source, watermark, now)) === null;
  });
}

/** Loads the table and what changed meanwhile; then the totals are those of Postgres. */
async function load(next: PurchaseFile, options: BuildOptions): Promise<void> {
  if (next.watermark !== null) await reset(next);
  await loadPurchases(next, options);
  const { database, organizationId } = options;
  await withSnapshot(database, async (source) => {
    const now = await takeSnapshot(source, organizationId);
    if (next.progress === null) throw new Error('the load lost its place');
    const reason = await whyChangesAreNotEnough(source, next.progress.since, now);
    if (reason !== null) {
      await reset(next);
      throw new Error(`the load must start over: ${reason}`);
    }
    const confirm = () => confirmSnapshot(database, organizationId, now);
    await finishLoad(source, next, confirm, options.signal);
    await requireSameTotals(source, next, organizationId);
  });
}

async function requireSameTotals(
  source: pg.ClientBase,
  next: PurchaseFile,
  organizationId: bigint,
): Promise<void> {
  const { rows } = await source.query<{ totals: string }>(sql`
    select count(*) || ' worth ' || coalesce(sum(purchase_value_in_cents), 0) as totals
    from purchases where organization_id = ${organizationId}`);
  const [row] = await queryRows(
    next.connection,
    sql`
      select count(*) || ' worth ' || coalesce(sum(purchase_value_in_cents), 0)
      from ${raw(next.catalog)}.purchase`,
  );
  if (row?.[0] === rows[0]?.totals) return;
  await reset(next);
  throw new Error('the load does not have the count and the total that Postgres has');
}
