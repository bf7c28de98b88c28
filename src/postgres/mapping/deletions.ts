import type { Connection } from '../connection/pool.ts';
import type { Gone } from './map-statement.ts';
import { type MappedView, storedTables } from './mapping-definition.ts';

/** More deletions of an organization's rows at once are held if they are also more than this share. */
const unguarded = 1_000;
const guardedShare = 0.1;

/**
 * Returns the rows that may be deleted. Those of an organization that would lose too many at once are held
 * until `apply --accept-deletions`: a mistake in a view must not empty the service. Rows of which others were
 * held since `since` are held too, because a comparison that had begun finds only the rest of them.
 */
export async function guardDeletions(
  connection: Connection,
  view: MappedView,
  gone: Gone,
  since: Date | null = null,
): Promise<Gone> {
  const allowed: Gone[number][] = [];
  for (const [organization, rows] of byOrganization(gone)) {
    const isHeld =
      (since !== null && (await wereHeldSince(connection, view, organization, since))) ||
      (await areTooMany(connection, view, organization, rows.length));
    if (isHeld) {
      await hold(connection, view, organization, rows.length);
    } else for (const row of rows) allowed.push(row);
  }
  return allowed;
}

export function byOrganization(gone: Gone): Map<string, Gone[number][]> {
  const grouped = new Map<string, Gone[number][]>();
  for (const row of gone) {
    const rows = grouped.get(row.organization) ?? [];
    rows.push(row);
    grouped.set(row.organization, rows);
  }
  return grouped;
}

async function wereHeldSince(
  connection: Connection,
  view: MappedView,
  organization: string,
  since: Date,
): Promise<boolean> {
  const { rowCount } = await connection.query(
    `select from mapping_held_deletions where view = $1 and organization_id = $2 and held_at >= $3`,
    [view, organization, since],
  );
  return rowCount !== 0;
}

async function areTooMany(
  connection: Connection,
  view: MappedView,
  organization: string,
  rows: number,
): Promise<boolean> {
  if (rows <= unguarded) return false;
  const { rows: counted } = await connection.query<{ stored: bigint }>(
    `select count(*) as stored from ${storedTables[view]} where organization_id = $1`,
    [organization],
  );
  return rows > guardedShare * Number(counted[0]?.stored ?? 0);
}

/** Records that deletions await `apply --accept-deletions`. */
export async function hold(
  connection: Connection,
  view: MappedView,
  organization: string,
  rows: number,
): Promise<void> {
  await connection.query(
    `insert into mapping_held_deletions as held (view, organization_id, rows) values ($1, $2, $3)
     on conflict (view, organization_id) do update set rows = greatest(held.rows, excluded.rows)
       where held.rows < excluded.rows`,
    [view, organization, rows],
  );
}
