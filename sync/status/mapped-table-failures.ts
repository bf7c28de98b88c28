import type { Database } from '../../src/postgres/connection/pool.ts';

/** Rows of a shop's tables that are not in purchases or customers as they should be (docs/your-data.md). */
export type MappingFailures = {
  readonly refused: number;
  readonly deviating: number;
  readonly since: Date;
};

/** Null if no row is refused or deviates, and without mapped tables. */
export async function readMappingFailures(database: Database): Promise<MappingFailures | null> {
  const found = await database.query<{ is_mapped: boolean }>(
    `select to_regclass('mapping_failures') is not null as is_mapped`,
  );
  if (found.rows[0]?.is_mapped !== true) return null;
  const { rows } = await database.query<{ refused: number; deviating: number; since: Date | null }>(
    `select count(*) filter (where kind = 'refused')::int as refused,
       count(*) filter (where kind = 'deviating')::int as deviating, min(failed_at) as since
     from mapping_failures`,
  );
  const [{ refused = 0, deviating = 0, since = null } = {}] = rows;
  return since === null ? null : { refused, deviating, since };
}
