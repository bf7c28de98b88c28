import sql, { type Sql } from 'sql-template-tag';
import { type ClickHouse, lacksTables } from '../../src/engines/clickhouse/client.ts';
import { type Load, loadColumnsSql, loadFrom } from '../../src/engines/clickhouse/generation.ts';
import { isOfWriters, type WriterBatches } from '../../src/engines/clickhouse/relations.ts';
import { table } from '../../src/engines/clickhouse/schema.ts';
import type { ClickHouseTick } from '../../src/engines/clickhouse/ticks.ts';
import { newestTick } from '../../src/purchase-store/ticks/published-tick.ts';

/** The newest loads of some organizations. */
export async function readLoads(clickhouse: ClickHouse, condition: Sql): Promise<Load[]> {
  const rows = await clickhouse
    .query(sql`select ${loadColumnsSql} from ${newestLoads(condition)}`)
    .catch((error) => {
      if (lacksTables(error)) return [];
      throw error;
    });
  return rows.map(loadFrom);
}

const newestLoads = (condition: Sql): Sql => sql`(
  select * from ${table.generation} where ${condition}
  order by number desc limit 1 by organization_id)`;

/**
 * Inserts the newest loads again, with `number` or a higher one. A row that an earlier worker has sent,
 * and that arrives later, has a lower number.
 */
export async function renumberLoads(
  clickhouse: ClickHouse,
  condition: Sql,
  number: bigint,
): Promise<void> {
  await clickhouse.run(sql`
    insert into ${table.generation} (${loadColumnsSql})
    select * replace (greatest(number + 1, ${number}) as number)
    from (select ${loadColumnsSql} from ${newestLoads(condition)})`);
}

/** The ticks that some loads show, each once. */
export const ticksOf = (
  loads: readonly Pick<Load, 'organizationId'>[],
  ticks: readonly ClickHouseTick[],
): ClickHouseTick[] => {
  const shown = new Set(loads.map(({ organizationId }) => newestTick(ticks, organizationId)));
  return ticks.filter((tick) => shown.has(tick));
};

/** The number of changes since each load, of some organizations. */
export async function countLoadChanges(
  clickhouse: ClickHouse,
  condition: Sql,
  writers: readonly WriterBatches[],
): Promise<Map<string, number>> {
  const rows = await clickhouse.query(sql`
    select load_id, countIf(sign >= 0) from ${table.purchase_change}
    where ${condition} and ${isOfWriters(writers)} group by load_id`);
  return new Map(rows.map(([loadId, changes]) => [loadId as string, Number(changes)]));
}
