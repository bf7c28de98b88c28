import sql from 'sql-template-tag';
import { type ClickHouse, lacksTables } from './client.ts';
import type { Generation } from './relations.ts';
import { clickHouseLayoutVersion } from './schema.ts';

/**
 * The newest generation of an organization; null if there is none that this version can read, or if
 * no worker of this version has created the tables.
 */
export async function newestGeneration(
  clickhouse: ClickHouse,
  organizationId: bigint,
  signal: AbortSignal | undefined,
): Promise<Generation | null> {
  const statement = sql`
    select layout_version, number, load_id, batches.writer, batches.last, currency,
      without_currency, source, as_of,
      (select max((number, as_of)) from up_to_date where organization_id = ${organizationId})
    from generation where organization_id = ${organizationId}
    order by number desc limit 1`;
  const [row] = await clickhouse.query(statement, signal).catch((error) => {
    if (lacksTables(error)) return [];
    throw error;
  });
  if (row?.[0] !== clickHouseLayoutVersion) return null;
  const [
    ,
    number,
    loadId,
    writers,
    last,
    currency,
    withoutCurrency,
    source,
    asOf,
    [upToDate, upTo],
  ] = row as unknown as [
    number,
    string,
    string,
    string[],
    string[],
    string | null,
    string,
    string,
    string,
    [number: string, asOf: string],
  ];
  // An instant of another generation may be one that this replica does not have yet.
  const latest = upToDate === number && BigInt(upTo) > BigInt(asOf) ? upTo : asOf;
  return {
    organizationId,
    number: BigInt(number),
    loadId,
    batches: writers.map((writer, index) => ({ writer, last: BigInt(last[index] ?? 0) })),
    currency,
    withoutCurrency: BigInt(withoutCurrency),
    asOf: BigInt(latest),
    source,
  };
}
