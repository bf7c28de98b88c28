import type pg from 'pg';
import sql, { raw } from 'sql-template-tag';
import { queryRows } from '../../src/duckdb/connection.ts';
import { withSnapshot } from '../../src/postgres/pool.ts';
import { finishLoad } from '../apply/apply-changes.ts';
import { canApplyChangesSince, whyLogInsufficient } from '../capture/log-sufficiency.ts';
import { confirmSnapshot, takeSnapshot } from '../capture/snapshot.ts';
import { type PurchaseFile, reset } from '../files/purchase-file.ts';
import { countDifferences } from '../verification/verify.ts';
import { type LoadOptions, loadPurchases } from './load.ts';
import { sortGeneration } from './sort-generation.ts';

export type BuildOptions = LoadOptions & {
  /** The path of a published generation to sort; null to load from Postgres. */
  readonly generation: string | null;
  /** The new file replaces a published generation, so all content is compared with Postgres first. */
  readonly isReplacing: boolean;
};

/**
 * Builds the file that replaces the live file. When the promise resolves, the new file has a
 * watermark. If an earlier build can be brought up to date with changes, it is kept.
 */
export async function buildNextFile(next: PurchaseFile, options: BuildOptions): Promise<void> {
  const isBuilt =
    next.watermark !== null && (await canApplyChangesSince(options.database, next.watermark));
  if (options.generation !== null) {
    if (!isBuilt) await sortGeneration(next, options.generation);
    return;
  }
  if (!isBuilt) await load(next, options);
  if (!options.isReplacing) return;
  const differences = await countDifferences(next, options);
  if (differences === 0) return;
  await reset(next);
  throw new Error(`the new file differs from Postgres in ${differences} ranges or dictionaries`);
}

/** Loads the table and the changes since the load began, and compares the totals with Postgres. */
async function load(next: PurchaseFile, options: BuildOptions): Promise<void> {
  if (next.watermark !== null) await reset(next);
  await loadPurchases(next, options);
  const { database, organizationId } = options;
  await withSnapshot(database, async (source) => {
    const now = await takeSnapshot(source, organizationId);
    if (next.progress === null) throw new Error('the file has no load in progress');
    const reason = await whyLogInsufficient(source, next.progress.since, now);
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
  throw new Error('count and total value of the loaded purchases differ from Postgres');
}
