import sql, { raw } from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { buildBatches } from '../../src/engines/clickhouse/generation.ts';
import { listOfIds } from '../../src/engines/clickhouse/relations.ts';
import { readClickHouseTicks } from '../../src/engines/clickhouse/ticks.ts';
import { organizationWatermark } from '../../src/purchase-store/ticks/published.ts';
import { newestTick } from '../../src/purchase-store/ticks/published-tick.ts';
import { databaseOf } from '../capture/watermark.ts';
import type { PublishedStatus, ReadPublished } from '../status/published-status.ts';
import { partsOf } from './clean-up.ts';
import { countLoadChanges, readLoads, ticksOf } from './published-loads.ts';

/** The ids in one statement, whose URL contains them. ClickHouse refuses values of more than 128 KiB. */
const maxBound = 2_000;

/** Reads what is published, with numbers of purchases and sizes on the disk. */
export const readPublishedStatus =
  (clickhouse: ClickHouse): ReadPublished =>
  async (organizations) => {
    const isWanted =
      organizations.length > maxBound
        ? raw('true')
        : sql`organization_id in ${listOfIds(organizations)}`;
    // Ticks are read before the loads, as readers do.
    const ticks = await readClickHouseTicks(clickhouse);
    const loads = await readLoads(clickhouse, isWanted);
    const published = new Map<bigint, PublishedStatus>();
    if (loads.length === 0) return { ticks, organizations: published };
    const writers = [buildBatches, ...ticksOf(loads, ticks).flatMap((tick) => tick.writers)];
    const changes = await countLoadChanges(clickhouse, isWanted, writers);
    const sizes = await readSizes(clickhouse);
    for (const load of loads) {
      const { organizationId, loadId, source, fingerprint, purchases } = load;
      published.set(organizationId, {
        ...organizationWatermark(organizationId, load, newestTick(ticks, organizationId)),
        source,
        fingerprint,
        database: databaseOf(source),
        purchases,
        changes: changes.get(loadId) ?? 0,
        bytes: sizes.get(loadId) ?? 0,
      });
    }
    return { ticks, organizations: published };
  };

/** The bytes of loads on the disk. */
async function readSizes(clickhouse: ClickHouse): Promise<Map<string, number>> {
  const rows = await clickhouse.query(
    sql`select partition, sum(bytes_on_disk) from ${partsOf(clickhouse, 'purchase')} group by partition`,
  );
  return new Map(rows.map(([loadId, bytes]) => [loadId as string, Number(bytes)]));
}
