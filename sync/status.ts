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
  return Promise.all(
    organizations.map(async ({ id, name }) => {
      const published = readPublished(organizationDirectory(dataDirectory, id));
      const organization = encodeId('organization', id);
      if (published === null) return { organization, name, ...notLoaded };
      return { organization, name, ...(await compare(database, id, published)) };
    }),
  );
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

async function compare(
  database: Database,
  organizationId: bigint,
  published: PublishedGeneration,
): Promise<Omit<OrganizationStatus, 'organization' | 'name'>> {
  const { rows } = await database.query<{ pending: bigint; age: number }>(sql`
    select count(*) as pending,
      extract(epoch from now() - ${formatInstant(published.asOf)}::timestamptz)::float8 as age
    from purchase_changes
    where (organization_id = ${organizationId} or organization_id is null)
      and not pg_visible_in_snapshot(transaction_id, ${published.snapshot}::pg_snapshot)`);
  const pending = Number(rows[0]?.pending ?? 0);
  return {
    state: pending === 0 ? 'current' : 'behind',
    purchases: published.purchases,
    fileBytes: published.bytes,
    generation: published.file,
    asOf: formatInstant(published.asOf),
    pendingChanges: pending,
    lagSeconds: pending === 0 ? 0 : Math.max(0, Math.round((rows[0]?.age ?? 0) * 10) / 10),
  };
}
