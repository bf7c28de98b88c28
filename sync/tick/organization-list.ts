import sql, { raw } from 'sql-template-tag';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { sourceIdentity } from '../../src/postgres/connection/source-identity.ts';
import type { Shard } from '../../src/purchase-store/ticks/shard.ts';
import { newOrganization, type Organization, type Organizations } from '../organization.ts';
import type { Store } from './store.ts';

/** The organizations of a shard with their sources, by id. */
export async function readSources(database: Database, shard: Shard): Promise<Map<bigint, string>> {
  const { rows } = await database.query<{ id: bigint; source: string }>(sql`
    select id, ${raw(sourceIdentity)} as source from organizations
    where id % ${shard.of}::bigint = ${shard.number - 1}::bigint order by id`);
  return new Map(rows.map(({ id, source }) => [id, source]));
}

/** Adds new organizations, and removes deleted ones. False if a deleted organization is still building. */
export async function refreshOrganizations(
  {
    database,
    store,
    shard,
  }: { readonly database: Database; readonly store: Store; readonly shard: Shard },
  organizations: Organizations,
  onRemoved: (organization: Organization) => void,
): Promise<boolean> {
  const sources = await readSources(database, shard);
  for (const [id, source] of sources) {
    // A restored database may give the id to another organization.
    const known = organizations.get(id);
    if (known?.source === source) continue;
    organizations.set(id, newOrganization(id, source, known));
  }
  let isComplete = true;
  for (const organization of [...organizations.values()]) {
    const { id, work } = organization;
    if (sources.has(id)) continue;
    if (work.build !== null) {
      isComplete = false;
      continue;
    }
    organizations.delete(id);
    await store.remove(id);
    onRemoved(organization);
  }
  return isComplete;
}
