import pg from 'pg';
import type { Connection } from '../connection/pool.ts';
import { type Claimed, type ComparisonBegin, claimSnapshot } from './as-of.ts';
import { failureText } from './failure-text.ts';
import { mapKeys } from './map-rows.ts';
import type { MappedView, Mapping } from './mapping-definition.ts';
import { deleteQueued, queuedEntries } from './queue.ts';
import { readSourceTables } from './source-tables.ts';
import { describeChange, readStructure } from './structure.ts';
import { keyFunctionName, keysFrom, mappedKey } from './trigger-function.ts';

const { escapeIdentifier } = pg;

/** Rows for which a query is evaluated at once. */
const batchBytes = 1_000_000;

/** More changed keys than this are found by a comparison of all rows instead, in smaller transactions. */
const maxKeys = 200_000;
const maxReasons = 3;

type MappedChanges = Omit<Claimed, 'isComplete' | 'before'> &
  ComparisonBegin & {
    /** All rows are to be compared with the views, before later instants are claimed. */
    readonly isComparisonDue: boolean;
  };

/**
 * Maps the changes that the snapshot of the caller's transaction sees, and deletes their entries: those of
 * transactions that commit later stay for the next call. Claims the instant of the snapshot (as-of.ts).
 */
export async function mapChanges(connection: Connection, mapping: Mapping): Promise<MappedChanges> {
  const { keys, isComparisonAskedFor, reasons } = await takeChanges(connection);
  await mapKeys(connection, mapping, keys);
  const structure = await readStructure(connection);
  const claimed = await claimSnapshot(connection, structure, isComparisonAskedFor);
  const { isComplete, before, ...updated } = claimed;
  if (before !== null && before !== structure && reasons.length === 0)
    reasons.push(describeChange(before, structure));
  const reason = reasons.length === 0 ? updated.reason : reasons.join(', ');
  if (reason !== updated.reason)
    await connection.query('update mapping_state set comparison_reason = $1', [reason]);
  return { ...updated, reason, structure, isComparisonDue: !isComplete };
}

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

/**
 * Names a key of mapping_sources that Postgres cannot parse, as after its column was renamed, with the reason.
 * Null if there is none. Without the right to use a schema, its keys are not known.
 */
export async function describeFailingKey(connection: Connection): Promise<string | null> {
  const tables = await readSourceTables(connection);
  for (const { name, keys } of tables.filter((table) => table.name === table.root)) {
    for (const { view, key } of keys) {
      const reason = await parseKey(connection, name, key);
      if (reason === null) continue;
      return (
        `The key ${key} of ${name} for ${view} fails: ${reason}. So all rows are compared after each write of ` +
        'the table, and the instant of the data waits. Correct the key in mapping_sources, and run ' +
        '`npx crm-data-service mapping apply`.'
      );
    }
  }
  return null;
}

/** The reason why a key cannot be parsed. PREPARE needs no right to read the table. */
async function parseKey(
  connection: Connection,
  table: string,
  key: string,
): Promise<string | null> {
  await connection.query('savepoint key');
  try {
    await connection.query(
      `prepare mapped_key as select ${mappedKey} ${keysFrom(key, table, table)}; deallocate mapped_key`,
    );
    await connection.query('release savepoint key');
    return null;
  } catch (error) {
    await connection.query('rollback to savepoint key');
    const isOfKey = error instanceof pg.DatabaseError && /^42(?!501)/.test(error.code ?? '');
    if (!isOfKey) return null;
    return failureText(error);
  }
}
