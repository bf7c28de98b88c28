import sql, { raw } from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import type { Load } from '../../src/engines/clickhouse/generation.ts';
import {
  buildWriter,
  storageTable,
  type TableName,
  table,
} from '../../src/engines/clickhouse/schema.ts';
import { readClickHouseTicks } from '../../src/engines/clickhouse/ticks.ts';
import { isOfShard, type Shard } from '../../src/purchase-store/ticks/shard.ts';
import { alteredTable, inShard, listOfNames, organizationOf } from './identifiers.ts';
import { readLoads, ticksOf } from './published-loads.ts';

/** `system.parts where …`: the parts of a table, of all servers of a cluster. */
export const partsOf = ({ cluster }: ClickHouse, name: TableName) =>
  raw(`${cluster === null ? 'system.parts' : `clusterAllReplicas('${cluster}', system.parts)`}
    where database = currentDatabase() and active and table = '${storageTable(name, cluster)}'`);

export async function dropPartition(
  clickhouse: ClickHouse,
  name: TableName,
  partition: string | bigint,
): Promise<void> {
  // By default, ClickHouse drops no partition of more than 50 GB.
  await clickhouse.run(sql`
    alter table ${alteredTable(clickhouse, name)} drop partition ${partition}
    settings max_partition_size_to_drop = 0`);
}

export const dropLoad = (clickhouse: ClickHouse, loadId: string): Promise<void> =>
  dropPartition(clickhouse, 'purchase', loadId);

/** The server writes parts again, for which ticks need not wait. */
const inBackground = raw('settings mutations_sync = 0');

/** Removes the load of an organization, and then its rows. */
export async function removeOrganization(
  clickhouse: ClickHouse,
  organizationId: bigint,
): Promise<void> {
  const remove = (name: 'generation' | 'purchase_change' | 'purchase_feed') =>
    clickhouse.run(sql`
      alter table ${alteredTable(clickhouse, name)}
      delete where organization_id = ${organizationId} ${inBackground}`);
  await remove('generation');
  for (const loadId of await readPartitions(clickhouse, 'purchase')) {
    if (organizationOf(loadId) === organizationId) await dropLoad(clickhouse, loadId);
  }
  await remove('purchase_change');
  await remove('purchase_feed');
}

export async function readPartitions(clickhouse: ClickHouse, name: TableName): Promise<string[]> {
  const rows = await clickhouse.query(
    sql`select distinct partition from ${partsOf(clickhouse, name)}`,
  );
  return rows.map(([partition]) => partition as string);
}

/** Queries of a replaced load, or of the batches of a former writer, may take this long. */
const defaultGraceMs = 600_000;

/** The names in one statement, whose URL contains them. The next call removes more. */
const maxRemoved = 1_000;

/** Loads of a shard. */
export type FoundLoads = {
  /** The loads that the table `generation` names. */
  readonly named: ReadonlySet<string>;
  readonly withPurchases: ReadonlySet<string>;
  readonly withChanges: ReadonlySet<string>;
};

/** Whether all purchases or all changes of a published load are missing, or its row of `generation`. */
export const hasLostRows = (
  { loadId, purchases }: Pick<Load, 'loadId' | 'purchases'>,
  changes: number,
  { named, withPurchases, withChanges }: FoundLoads,
): boolean =>
  !named.has(loadId) ||
  (purchases > 0 && !withPurchases.has(loadId)) ||
  (changes > 0 && !withChanges.has(loadId));

/**
 * Returns a function that removes the rows of loads and writers of a shard that have not been used for a
 * while: of replaced loads, failed builds and failed inserts, and batches that were copied. It returns the
 * loads that it has found.
 */
export function createUnusedRemoval(
  clickhouse: ClickHouse,
  shard: Shard,
  graceMs = defaultGraceMs,
): (usedByWorker: () => readonly string[]) => Promise<FoundLoads> {
  /** Monotonic milliseconds since which a load or a writer is known to be unused. */
  const unusedSince = new Map<string, number>();

  return async (usedByWorker) => {
    const partitions = (await readPartitions(clickhouse, 'purchase')).filter((loadId) => {
      const id = organizationOf(loadId);
      return id !== null && isOfShard(id, shard);
    });
    const rows = await clickhouse.query(sql`
      select load_id, writer from ${table.purchase_change} where ${inShard(shard)}
      group by load_id, writer`);
    const found = new Set([...partitions, ...(rows.flat() as string[])]);
    // Read after the rows, so that whatever is published or begins meanwhile counts as used.
    const loads = await readLoads(clickhouse, inShard(shard));
    const writers = ticksOf(loads, await readClickHouseTicks(clickhouse)).flatMap(
      (tick) => tick.writers,
    );
    const foundLoads = {
      named: new Set(loads.map(({ loadId }) => loadId)),
      withPurchases: new Set(partitions),
      withChanges: new Set(rows.map(([loadId]) => loadId as string)),
    };
    const used = new Set([
      ...foundLoads.named,
      ...writers.map(({ writer }) => writer),
      ...usedByWorker(),
    ]);
    const unused = [...found].filter((name) => name !== buildWriter && !used.has(name));
    const now = performance.now();
    for (const name of unusedSince.keys()) if (!unused.includes(name)) unusedSince.delete(name);
    for (const name of unused) if (!unusedSince.has(name)) unusedSince.set(name, now);
    const due = unused
      .filter((name) => now - (unusedSince.get(name) ?? now) >= graceMs)
      .slice(0, maxRemoved);
    if (due.length === 0) return foundLoads;
    for (const loadId of partitions) if (due.includes(loadId)) await dropLoad(clickhouse, loadId);
    const names = listOfNames(due);
    await clickhouse.run(sql`
      alter table ${alteredTable(clickhouse, 'purchase_change')}
      delete where ${inShard(shard)} and (load_id in ${names} or writer in ${names})
      ${inBackground}`);
    for (const name of due) unusedSince.set(name, now);
    return foundLoads;
  };
}
