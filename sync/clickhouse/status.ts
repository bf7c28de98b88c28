import sql from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import type { PublishedStatus, ReadPublished } from '../status/published.ts';
import { purchaseCount, readNewestOf, type StoredGeneration } from './generations.ts';
import { partsOfLoads } from './loads.ts';

/** Reads the published generations with their numbers of purchases and their sizes on the disk. */
export const readPublishedStatus =
  (clickhouse: ClickHouse): ReadPublished =>
  async (organizations) => {
    const published = new Map<bigint, PublishedStatus>();
    for (const [id, generation] of await readNewestOf(clickhouse, organizations)) {
      published.set(id, {
        ...generation.watermark,
        name: String(generation.number),
        ...(await readSize(clickhouse, generation)),
      });
    }
    return published;
  };

async function readSize(clickhouse: ClickHouse, generation: StoredGeneration) {
  const [row] = await clickhouse.query(sql`
    select ${purchaseCount(generation)},
      (select sum(bytes_on_disk) from ${partsOfLoads(clickhouse)} and partition = ${generation.load})`);
  const [purchases, bytes] = (row ?? []).map(Number) as [number, number];
  return { purchases, bytes };
}
