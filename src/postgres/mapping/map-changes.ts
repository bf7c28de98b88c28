import pg from 'pg';
import { mappingState } from '../connection/claimed-instant.ts';
import type { Connection } from '../connection/pool.ts';
import { databaseIdentity } from '../connection/source-identity.ts';
import { mapKeys } from './map-rows.ts';
import type { MappedView, Mapping } from './mapping-definition.ts';
import { deleteQueued, queuedEntries } from './queue.ts';
import { describeChange, readStructure } from './structure.ts';
import { keyFunctionName } from './trigger-function.ts';

const { escapeIdentifier } = pg;

/** Rows for which a query is evaluated at once. */
const batchBytes = 1_000_000;

/** More changed keys than this are found by a comparison of all rows instead, in smaller transactions. */
const maxKeys = 200_000;
const maxReasons = 3;

export type MappedChanges = {
  /**
   * How often a comparison was asked for: a table was truncated, a key could not be logged, or too many rows
   * have changed. Another process may have taken these changes.
   */
  readonly asked: bigint;
  /** All rows are to be compared with the views, before later instants are claimed. */
  readonly isComparisonDue: boolean;
  /** Why; null if that is not known. */
  readonly reason: string | null;
  /** The present one (structure.ts). */
  readonly structure: string;
  /** The instant of the snapshot. */
  readonly at: Date;
  /** What `status` shows as the problem. */
  readonly problem: string | null;
};

/**
 * Maps the changes that the snapshot of the caller's transaction sees, and deletes their entries: those of
 * transactions that commit later stay for the next call. Claims the instant of the snapshot, unless
 * changes may have been missed since all rows were compared.
 */
export async function mapChanges(connection: Connection, mapping: Mapping): Promise<MappedChanges> {
  const { keys, isComparisonAskedFor, reasons } = await takeChanges(connection);
  await mapKeys(connection, mapping, keys);
  const structure = await readStructure(connection);
  // Until the comparison has ended, `structure` is null.
  const { rows } = await connection.query<Updated>(
    `update mapping_state as state
     set as_of = case when is_complete then greatest(as_of, transaction_timestamp()) else as_of end,
       structure = case when is_complete then state.structure end, asked = asked + $2::boolean::int,
       emptied_at = pg_current_snapshot(), emptied_in = ${databaseIdentity}
     from (
       select coalesce(structure = $1 and not $2::boolean, false) as is_complete, structure as before, ctid
       from ${mappingState} as present
     ) as now
     where state.ctid = now.ctid
     returning is_complete as "isComplete", before, asked, transaction_timestamp() as at, problem,
       comparison_reason as reason`,
    [structure, isComparisonAskedFor],
  );
  const { isComplete, before, ...updated } = rows[0] ?? removed;
  if (before !== null && before !== structure && reasons.length === 0)
    reasons.push(describeChange(before, structure));
  const reason = reasons.length === 0 ? updated.reason : reasons.join(', ');
  if (reason !== updated.reason)
    await connection.query('update mapping_state set comparison_reason = $1', [reason]);
  return { ...updated, reason, structure, isComparisonDue: !isComplete };
}

type Updated = Omit<MappedChanges, 'structure' | 'isComparisonDue'> & {
  readonly isComplete: boolean;
  /** The structure with which all rows were compared last; null while a comparison is due. */
  readonly before: string | null;
};

/** Of a mapping that was removed meanwhile. */
const removed: Updated = {
  ...{ isComplete: false, before: null, asked: 0n, at: new Date(0), problem: null, reason: null },
};

async function takeChanges(connection: Connection) {
  const { rows } = await connection.query<Logged>(
    `with taken as (${deleteQueued('source is null limit $1')} returning view, key, reason)
     select view, key, null as source, left(reason, 200) as reason, count(*)::int as entries
     from taken group by view, key, 4
     union all
     select distinct view, null, source, null, 0 from ${queuedEntries} as queued where source is not null`,
    [maxKeys],
  );
  const keys: Record<MappedView, Set<string>> = {
    mapped_customers: new Set(),
    mapped_purchases: new Set(),
  };
  let isComparisonAskedFor = false;
  const reasons = new Set<string>();
  for (const { view, key, source, reason } of rows) {
    const logged = key === null ? null : [key];
    const found = source === null ? logged : await findKeys(connection, view, source);
    if (found === null) {
      isComparisonAskedFor = true;
      reasons.add(
        reason ?? (source === null ? 'a key that fails' : `a key of ${source} that fails`),
      );
    } else for (const each of found) keys[view].add(each);
  }
  if (rows.reduce((sum, { entries }) => sum + entries, 0) === maxKeys) {
    const rest = await connection.query('delete from mapping_changes where source is null');
    if ((rest.rowCount ?? 0) > 0) {
      isComparisonAskedFor = true;
      reasons.add(`more than ${maxKeys} changed keys`);
    }
  }
  return {
    keys: {
      mapped_customers: [...keys.mapped_customers],
      mapped_purchases: [...keys.mapped_purchases],
    },
    isComparisonAskedFor,
    reasons: [...reasons].slice(0, maxReasons),
  };
}

type Logged = {
  readonly view: MappedView;
  readonly key: string | null;
  /** The source of logged rows. */
  readonly source: string | null;
  /** Why a comparison is asked for. Any role may have written it. */
  readonly reason: string | null;
  readonly entries: number;
};

/**
 * Takes the logged rows of a source, and returns the keys to which its queries lead now. Null if they fail,
 * as after a column was renamed, or lead to too many.
 */
async function findKeys(
  connection: Connection,
  view: MappedView,
  source: string,
): Promise<readonly string[] | null> {
  await connection.query('savepoint keys');
  try {
    const { rows } = await connection.query<{ key: string }>(
      `with taken as (${deleteQueued('view = $1 and source = $2')} returning row),
       numbered as (
         select row, sum(pg_column_size(row)) over (rows unbounded preceding) / $3 as batch from taken
       ),
       batches as (select jsonb_agg(row) as rows from numbered group by batch)
       select distinct key
       from batches cross join lateral ${escapeIdentifier(keyFunctionName(source))}($1, batches.rows) as key
       limit $4`,
      [view, source, batchBytes, maxKeys + 1],
    );
    if (rows.length <= maxKeys) {
      await connection.query('release savepoint keys');
      return rows.map(({ key }) => key);
    }
  } catch (error) {
    const isOfQuery =
      error instanceof pg.DatabaseError && /^(2|42(?!501)|54|P0)/.test(error.code ?? '');
    if (!isOfQuery) throw error;
  }
  await connection.query('rollback to savepoint keys');
  await connection.query(deleteQueued('view = $1 and source = $2'), [view, source]);
  return null;
}
