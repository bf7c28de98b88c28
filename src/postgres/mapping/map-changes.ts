import type { Connection } from '../connection/pool.ts';
import { mapKeys } from './map-rows.ts';
import { type MappedView, type Mapping, mappedViews } from './mapping-definition.ts';
import { readStructure } from './structure.ts';

/** More changed keys than this are found by a comparison of all rows instead, in smaller transactions. */
const maxKeys = 200_000;

export type MappedChanges = {
  /**
   * How often a comparison was asked for: a table was truncated, a key could not be logged, or too many rows
   * have changed. Another process may have taken these changes.
   */
  readonly asked: bigint;
  /** All rows are to be compared with the views, before later instants are claimed. */
  readonly isComparisonDue: boolean;
  /** The present one (structure.ts). */
  readonly structure: string;
  /** The instant of the snapshot. */
  readonly at: Date;
};

/**
 * Maps the changes that the snapshot of the caller's transaction sees, and deletes their entries: those of
 * transactions that commit later stay for the next call. Claims the instant of the snapshot, unless
 * changes may have been missed since all rows were compared.
 */
export async function mapChanges(connection: Connection, mapping: Mapping): Promise<MappedChanges> {
  const { keys, isComparisonAskedFor } = await takeChanges(connection);
  await mapKeys(connection, mapping, keys);
  const structure = await readStructure(connection);
  // Until the comparison has ended, `structure` is null.
  const { rows } = await connection.query<{ isComplete: boolean; asked: bigint; at: Date }>(
    `update mapping_state as state
     set as_of = case when is_complete then greatest(as_of, transaction_timestamp()) else as_of end,
       structure = case when is_complete then structure end, asked = asked + $2::boolean::int
     from (select coalesce(structure = $1 and not $2::boolean, false) as is_complete from mapping_state) as now
     returning is_complete as "isComplete", asked, transaction_timestamp() as at`,
    [structure, isComparisonAskedFor],
  );
  const { isComplete = false, asked = 0n, at = new Date(0) } = rows[0] ?? {};
  return { asked, structure, at, isComparisonDue: !isComplete };
}

async function takeChanges(connection: Connection) {
  const { rows } = await connection.query<{ view: MappedView; key: string | null }>(
    `with taken as (
       delete from mapping_changes
       where ctid = any (array(select ctid from mapping_changes limit $1)) returning view, key
     )
     select view, key from taken group by view, key`,
    [maxKeys],
  );
  const rest = rows.length === 0 ? null : await connection.query('delete from mapping_changes');
  const keys = Object.fromEntries(
    mappedViews.map((view) => [
      view,
      rows.flatMap((row) => (row.view === view && row.key !== null ? [row.key] : [])),
    ]),
  );
  const isComparisonAskedFor = (rest?.rowCount ?? 0) > 0 || rows.some(({ key }) => key === null);
  return { keys, isComparisonAskedFor };
}
