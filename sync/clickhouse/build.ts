import type pg from 'pg';
import sql from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { currentSnapshot, type RetainedSnapshot, retainChangeLog } from '../capture/change-log.ts';
import type { LoadProgress } from '../capture/watermark.ts';
import { countDifferences } from '../verification/verify.ts';
import { storedContent } from './content.ts';
import { type Content, currentPurchases } from './generations.ts';
import { loadPurchases } from './load.ts';
import { bringUpToDate, type Stores } from './update.ts';

export type BuildOptions = Stores & {
  readonly organizationId: bigint;
  readonly dataFolderId: string;
  readonly load: string;
  readonly writer: string;
  /** The load replaces a generation, so all content is compared with Postgres first. */
  readonly isReplacing: boolean;
  readonly signal: AbortSignal;
  /** Called with the snapshot whose later changes the load needs. */
  readonly onRetain: (snapshot: RetainedSnapshot) => void;
  readonly onProgress: (progress: LoadProgress) => void;
};

/** Loads all purchases and the changes since, and compares the result with Postgres. */
export async function buildFromPostgres(options: BuildOptions): Promise<Content> {
  const { database, organizationId, signal, onRetain } = options;
  // No worker may prune the entries from here on, because the load needs them at its end.
  onRetain({ snapshot: await currentSnapshot(database), token: null });
  await retainChangeLog(database, options.dataFolderId, organizationId);
  const loaded = await loadPurchases({ ...options, onBegin: onRetain });
  const update = await bringUpToDate(
    options,
    loaded,
    options.writer,
    signal,
    async (source, content) => {
      if (await hasSameTotals(source, options.clickhouse, content)) return content;
      throw new Error('count and total value of the loaded purchases differ from Postgres');
    },
  );
  if (typeof update === 'string') throw new Error(`the load must start over: ${update}`);
  const { content } = update;
  onRetain(content.watermark);
  if (!options.isReplacing) return content;
  const differences = await countDifferences(storedContent(options.clickhouse, content), options);
  if (differences === 0) return content;
  throw new Error(`the new load differs from Postgres in ${differences} ranges`);
}

async function hasSameTotals(
  source: pg.ClientBase,
  clickhouse: ClickHouse,
  content: Content,
): Promise<boolean> {
  const { rows } = await source.query<{ totals: string }>(sql`
    select count(*) || ' worth ' || coalesce(sum(purchase_value_in_cents), 0) as totals
    from purchases where organization_id = ${content.watermark.organizationId}`);
  const purchases = currentPurchases(content, sql`purchase_value_in_cents as cents`);
  const [row] = await clickhouse.query(sql`
    select concat(toString(count()), ' worth ', toString(sum(toInt128(cents)))) from ${purchases}`);
  return row?.[0] === rows[0]?.totals;
}
