import sql, { raw } from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { storageTable, type TableName } from '../../src/engines/clickhouse/schema.ts';
import { readNewestOf } from './generations.ts';

const tablesOfLoads = ['purchase', 'purchase_change'] as const;
const tablesOfOrganizations = ['generation', 'up_to_date'] as const;

/** `system.parts where …`: the parts that have rows of loads, of all servers of a cluster. */
export const partsOfLoads = ({ cluster }: ClickHouse) =>
  raw(`${cluster === null ? 'system.parts' : `clusterAllReplicas('${cluster}', system.parts)`}
    where database = currentDatabase() and active
      and table in (${tablesOfLoads.map((table) => `'${storageTable(table, cluster)}'`).join(', ')})`);

/** The organization's id, with which the identifier of a load begins; null for a foreign one. */
function organizationOf(load: string): bigint | null {
  const [, id] = /^(\d+)-[0-9a-f]+$/.exec(load) ?? [];
  return id === undefined ? null : BigInt(id);
}

/** The identifiers of all loads that have rows, by organization. */
export async function readLoads(clickhouse: ClickHouse): Promise<Map<bigint, string[]>> {
  const rows = await clickhouse.query(
    sql`select distinct partition from ${partsOfLoads(clickhouse)}`,
  );
  const loads = new Map<bigint, string[]>();
  for (const [load] of rows as unknown as [string][]) {
    const id = organizationOf(load);
    if (id !== null) loads.set(id, [...(loads.get(id) ?? []), load]);
  }
  return loads;
}

export async function dropLoad(clickhouse: ClickHouse, load: string): Promise<void> {
  for (const table of tablesOfLoads) {
    await clickhouse.run(sql`alter table ${nameOf(clickhouse, table)} drop partition ${load}`);
  }
}

/** Removes the generation of an organization, and then its rows. */
export async function removeOrganization(
  clickhouse: ClickHouse,
  organizationId: bigint,
): Promise<void> {
  for (const table of tablesOfOrganizations) {
    await clickhouse.run(sql`
      alter table ${nameOf(clickhouse, table)} delete where organization_id = ${organizationId}`);
  }
  const loads = await readLoads(clickhouse);
  for (const load of loads.get(organizationId) ?? []) await dropLoad(clickhouse, load);
}

const nameOf = ({ cluster }: ClickHouse, table: TableName) =>
  raw(storageTable(table, cluster) + (cluster === null ? '' : ` on cluster ${cluster}`));

/** Queries of a replaced load may take this long. */
const defaultGraceMs = 600_000;

/**
 * Returns a function that drops the loads which no generation has named for a while. Loads of
 * `unfinished` are still written.
 */
export function createLoadPruning(
  clickhouse: ClickHouse,
  unfinished: ReadonlySet<string>,
  graceMs = defaultGraceMs,
): (isMine: (organizationId: bigint) => boolean) => Promise<void> {
  /** Monotonic milliseconds since which a load is known to be unused. */
  const unusedSince = new Map<string, number>();

  return async (isMine) => {
    // Loads are listed before generations: a load that is published meanwhile is named.
    const loads = [...(await readLoads(clickhouse))].filter(([id]) => isMine(id));
    const newest = await readNewestOf(
      clickhouse,
      loads.map(([id]) => id),
    );
    const unused = loads.flatMap(([id, loadsOfOrganization]) =>
      loadsOfOrganization.filter((load) => load !== newest.get(id)?.load && !unfinished.has(load)),
    );
    const now = performance.now();
    for (const load of unusedSince.keys()) if (!unused.includes(load)) unusedSince.delete(load);
    for (const load of unused) {
      const since = unusedSince.get(load) ?? now;
      unusedSince.set(load, since);
      if (now - since >= graceMs) await dropLoad(clickhouse, load);
    }
  };
}
