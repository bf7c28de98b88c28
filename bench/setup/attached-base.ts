import { join } from 'node:path';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { quotePath } from '../../src/duckdb/connection.ts';
import { organizationDirectory, readCurrent } from '../../src/purchase-store/format/current.ts';
import {
  createBaseLayout,
  dictionaries,
  entriesOfDelta,
  layoutVersion,
} from '../../src/purchase-store/format/layout.ts';
import { previousQuarters } from '../../src/purchase-store/format/previous-purchases.ts';
import { selectEntries } from '../../src/purchase-store/format/relations.ts';
import { createBases, openStore } from '../../src/purchase-store/open-store.ts';
import { newestTick, readTicks } from '../../src/purchase-store/ticks/published-tick.ts';

/**
 * Attaches the purchases of an organization's last load as `catalog`: its base, or a copy of its log
 * in memory if it has no base. Returns how many those are.
 */
export async function attachBase(
  instance: DuckDBInstance,
  connection: DuckDBConnection,
  { dataDirectory, organizationId }: { dataDirectory: string; organizationId: bigint },
  catalog: string,
): Promise<number> {
  const directory = organizationDirectory(dataDirectory, organizationId);
  const current = readCurrent(directory, layoutVersion);
  if (current === null) throw new Error('nothing is published');
  if (current.base !== null) {
    const path = quotePath(join(directory, current.base));
    await connection.run(`attach ${path} as ${catalog} (read_only)`);
    return current.purchases;
  }
  const published = newestTick(readTicks(dataDirectory), organizationId)?.tick ?? 0;
  const bases = createBases(instance, () => null);
  const options = { published, catalog: `${catalog}_delta` };
  const store = await openStore(connection, bases, directory, current, options);
  const { delta } = store.catalogs;
  await connection.run(`
    attach ':memory:' as ${catalog}; ${createBaseLayout(catalog)};
    insert into ${catalog}.purchase by name
    select * exclude (sign), 0 as ${previousQuarters.ofAny.name}, 0 as ${previousQuarters.ofStatus.name}
    from ${delta}.change where sign > 0 order by created_at, id`);
  for (const each of dictionaries) {
    const entries = selectEntries(entriesOfDelta(delta, each), each);
    await connection.run(`insert into ${catalog}.${each.table} ${entries}`);
  }
  await store.close(connection);
  return current.purchases;
}
