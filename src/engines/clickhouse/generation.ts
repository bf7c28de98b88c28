import { ClickHouseError } from '@clickhouse/client';
import sql, { raw } from 'sql-template-tag';
import type { ClickHouse } from './client.ts';
import type { Generation } from './relations.ts';
import { clickHouseLayoutVersion } from './schema.ts';

/**
 * The newest generation of an organization; null if there is none that this version can read, or if
 * the worker has not created the tables.
 */
export async function newestGeneration(
  clickhouse: ClickHouse,
  organizationId: bigint,
  signal: AbortSignal | undefined,
): Promise<Generation | null> {
  const statement = sql`
    with newest as (
      select * from generation where organization_id = ${organizationId}
      order by number desc limit 1
    )
    select number, load_id, batches.writer, batches.last, source, greatest(as_of, (
      select max(as_of) from up_to_date
      where organization_id = ${organizationId} and number in (select number from newest)
    ))
    from newest where layout_version = ${raw(String(clickHouseLayoutVersion))}`;
  const [row] = await clickhouse.query(statement, signal).catch((error) => {
    if (error instanceof ClickHouseError && error.type === 'UNKNOWN_TABLE') return [];
    throw error;
  });
  if (row === undefined) return null;
  const [number, loadId, writers, last, source, asOf] = row as unknown as [
    string,
    string,
    string[],
    string[],
    string,
    string,
  ];
  return {
    organizationId,
    number: BigInt(number),
    loadId,
    batches: writers.map((writer, index) => ({ writer, last: BigInt(last[index] ?? 0) })),
    asOf: BigInt(asOf),
    source,
  };
}
