import sql from 'sql-template-tag';
import { formatInstant } from '../src/domain/instant.ts';
import { encodeId } from '../src/domain/public-id.ts';
import {
  organizationDirectory,
  type PublishedGeneration,
  readPublished,
} from '../src/engines/duckdb/published-generation.ts';
import type { Database } from '../src/postgres/pool.ts';

export type OrganizationStatus = {
  readonly organization: string;
  readonly name: string;
  readonly state: 'current' | 'behind' | 'not loaded';
  readonly purchases: number | null;
  readonly fileBytes: number | null;
  readonly generation: string | null;
  readonly asOf: string | null;
  /** Committed changes that the generation does not show yet. */
  readonly pendingChanges: number | null;
  /** How long the oldest answer has been wrong at most; 0 where nothing is pending. */
  readonly lagSeconds: number | null;
};

/** How far each organization's published purchases are behind Postgres. */
export async function readStatus(
  database: Database,
  dataDirectory: string,
  organizations: readonly { id: bigint; name: string }[],
): Promise<OrganizationStatus[]> {
  const published = new Map<bigint, PublishedGeneration>();
  for (const { id } of organizations) {
    const generation = readPublished(organizationDirectory(dataDirectory, id));
    if (generation !== null) published.set(id, generation);
  }
  const pending = await countPending(database, published);
  return organizations.map(({ id, name }) => {
    const organization = encodeId('organization', id);
    const generation = published.get(id);
    if (generation === undefined) return { organization, name, ...notLoaded };
    const { changes, ageSeconds } = pending.get(id) ?? { changes: 0, ageSeconds: 0 };
    return {
      organization,
      name,
      state: changes === 0 ? 'current' : 'behind',
      purchases: generation.purchases,
      fileBytes: generation.bytes,
      generation: generation.file,
      asOf: formatInstant(generation.asOf),
      pendingChanges: changes,
      lagSeconds: changes === 0 ? 0 : Math.max(0, Math.round(ageSeconds * 10) / 10),
    };
  });
}

const notLoaded = {
  state: 'not loaded',
  purchases: null,
  fileBytes: null,
  generation: null,
  asOf: null,
  pendingChanges: null,
  lagSeconds: null,
} as const;

/** Changes that a generation does not show, and its age; one look at the log for all of them. */
async function countPending(
  database: Database,
  published: ReadonlyMap<bigint, PublishedGeneration>,
): Promise<Map<bigint, { changes: number; ageSeconds: number }>> {
  const generations = [...published.values()];
  const { rows } = await database.query<{ id: bigint; changes: bigint; age: number }>(sql`
    select published.id, count(*) as changes,
      extract(epoch from now() - min(published.as_of))::float8 as age
    from unnest(
      ${[...published.keys()].map(String)}::bigint[],
      ${generations.map(({ snapshot }) => snapshot)}::pg_snapshot[],
      ${generations.map(({ asOf }) => formatInstant(asOf))}::timestamptz[]
    ) as published (id, snapshot, as_of)
    -- A TRUNCATE's entry concerns every organization.
    join (
      select organization_id, transaction_id from purchase_changes where organization_id is not null
      union all
      select organizations.id, transaction_id
      from purchase_changes, organizations
      where purchase_changes.organization_id is null
    ) as purchase_changes on purchase_changes.organization_id = published.id
    where not pg_visible_in_snapshot(purchase_changes.transaction_id, published.snapshot)
    group by published.id`);
  return new Map(
    rows.map(({ id, changes, age }) => [id, { changes: Number(changes), ageSeconds: age }]),
  );
}
