import sql, { join, type Sql } from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { isOfWriters, type WriterBatches } from '../../src/engines/clickhouse/relations.ts';
import type { ClickHouseTick } from '../../src/engines/clickhouse/ticks.ts';
import { type Shard, shardName } from '../../src/purchase-store/ticks/shard.ts';
import { copyChanges } from './change-rows.ts';
import { inShard, newWriter } from './identifiers.ts';

/**
 * The writers of the ticks that a shard's organizations show. If a tick is of another shard, the batches
 * are copied to one writer: a tick may name writers whose batches were copied for another one.
 */
export async function continueWriters(
  clickhouse: ClickHouse,
  shard: Shard,
  ticks: readonly ClickHouseTick[],
): Promise<readonly WriterBatches[]> {
  if (ticks.every((tick) => shardName(tick.shard) === shardName(shard))) {
    return ticks.flatMap(({ writers }) => writers);
  }
  const isShown = ticks.map(({ tick, ...shown }) => {
    const newer = ticks.filter((other) => other.tick > tick);
    const isOfNewer = newer.map((other) => sql`not ${inShard(other.shard)}`);
    const conditions = [inShard(shown.shard), ...isOfNewer, isOfWriters(shown.writers)];
    return sql`(${join(conditions, ' and ')})`;
  });
  const isOfShard = sql`${inShard(shard)} and (${join(isShown, ' or ')})`;
  const writers = ticks.flatMap((tick) => tick.writers);
  return [await mergeWriters(clickhouse, isOfShard, writers)];
}

/** Copies batches of several writers to one. */
export async function mergeWriters(
  clickhouse: ClickHouse,
  condition: Sql,
  writers: readonly WriterBatches[],
): Promise<WriterBatches> {
  const writer = newWriter();
  await copyChanges(clickhouse, condition, sql`${writer} as writer`);
  return { writer, last: writers.reduce((max, { last }) => (last > max ? last : max), 0n) };
}
