import sql from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import type { GenerationRows } from '../../src/engines/clickhouse/relations.ts';
import { currenciesOfRows, purchaseNames, table } from '../../src/engines/clickhouse/schema.ts';
import { newestPurchases, purchaseCount } from './newest-purchases.ts';
import type { NewLoad } from './publisher.ts';

export type LoadDescription = Pick<
  NewLoad,
  'loadId' | 'purchases' | 'currency' | 'withoutCurrency'
>;

/** Counts the rows of a load, and reads their currencies. */
export async function describeLoad(
  clickhouse: ClickHouse,
  loadId: string,
): Promise<LoadDescription> {
  const [row] = await clickhouse.query(sql`
    select count(), ${currenciesOfRows} from ${table.purchase} where load_id = ${loadId}`);
  const [purchases, currency, withoutCurrency] = row as [string, string | null, string];
  return {
    loadId,
    purchases: Number(purchases),
    currency,
    withoutCurrency: BigInt(withoutCurrency),
  };
}

/** Merges a load and its changes into a new load, on the server. Rejects if their numbers of purchases differ. */
export async function mergeLoad(
  clickhouse: ClickHouse,
  rows: GenerationRows,
  loadId: string,
  signal: AbortSignal,
): Promise<LoadDescription> {
  await clickhouse.run(
    sql`
      insert into ${table.purchase} (organization_id, load_id, ${purchaseNames})
      select ${rows.organizationId}, ${loadId}, * from ${newestPurchases(rows, purchaseNames)}`,
    signal,
  );
  const merged = await describeLoad(clickhouse, loadId);
  const [expected] = await clickhouse.query(sql`select ${purchaseCount(rows)}`, signal);
  if (Number(expected?.[0]) === merged.purchases) return merged;
  throw new Error('ClickHouse merged another number of purchases than the changes lead to');
}
