import sql from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { currenciesOfRows, purchaseNames } from '../../src/engines/clickhouse/schema.ts';
import { whyCompact } from '../load/compact.ts';
import {
  type Content,
  currentPurchases,
  inChanges,
  inLoad,
  purchaseCount,
  readCurrencies,
} from './generations.ts';

/** Each start of a worker, and each failed attempt, adds a writer. Queries name all of them. */
const maxWriters = 100;

/** The rows of the load and of the changes. */
export type ContentSize = { readonly base: number; readonly changes: number };

export async function sizeOf(clickhouse: ClickHouse, content: Content): Promise<ContentSize> {
  const [row] = await clickhouse.query(sql`
    select (select count() ${inLoad(content)}), (select count() ${inChanges(content)})`);
  const [base, changes] = (row ?? []).map(Number) as [number, number];
  return { base, changes };
}

/** The reason to compact a content; null if it has few changes. */
export function whyCompactContent(
  { batches }: Content,
  { base, changes }: ContentSize,
  maxChanges: number | undefined,
): string | null {
  if (batches.length > maxWriters) return `changes of ${batches.length} writers`;
  return whyCompact(base, changes, maxChanges);
}

/** Merges a content into a new load, on the server. Rejects if their numbers of purchases differ. */
export async function compact(
  clickhouse: ClickHouse,
  content: Content,
  load: string,
  signal: AbortSignal,
): Promise<Content> {
  const { watermark } = content;
  await clickhouse.run(
    sql`
      insert into purchase (organization_id, load_id, ${purchaseNames})
      select ${watermark.organizationId}, ${load}, * from ${currentPurchases(content, purchaseNames)}`,
    signal,
  );
  const [row] = await clickhouse.query(
    sql`
      select ${purchaseCount(content)},
        (select tuple(count(), ${currenciesOfRows}) ${inLoad({ ...content, load })})`,
    signal,
  );
  const [expected, [count, ...currencies]] = row as unknown as [string, [string, ...unknown[]]];
  if (count === expected) return { load, batches: [], ...readCurrencies(currencies), watermark };
  throw new Error('ClickHouse merged another number of purchases than the generation has');
}
