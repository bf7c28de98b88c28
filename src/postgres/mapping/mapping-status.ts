import { formatInstant } from '../../domain/instant.ts';
import { encodeId } from '../../domain/public-id.ts';
import type { TableRights } from '../connection/database-failure.ts';
import type { Database } from '../connection/pool.ts';
import { microsecondsOf } from '../lists/instants.ts';
import type { MappedView } from './mapping-definition.ts';
import { queuedEntries } from './queue.ts';

/** What an operator sees of the mapping of a shop's own tables. It has keys of rows, and no other values. */
export type MappingStatus = {
  /** All commits of the shop before this instant are mapped; null until the first copy is complete. */
  readonly asOf: string | null;
  /** The age of `asOf` by Postgres's clock. */
  readonly lagSeconds: number | null;
  /** When the first copy was complete; null before. */
  readonly copiedAt: Date | null;
  /** Logged changes of keys that are not mapped. No more than `maxCounted` are counted. */
  readonly pendingChanges: number;
  /** Rows that the service refuses. No more than `maxCounted` are counted. */
  readonly refusedRows: number;
  /** The most frequent reasons. */
  readonly refusals: readonly Refusal[];
  readonly heldDeletions: readonly HeldDeletion[];
  /** The comparison of all rows that runs; null if none does. */
  readonly comparison: RunningComparison | null;
  /** The last comparison of all rows; null before its end. */
  readonly comparedAt: Date | null;
  /** Rows that comparisons have corrected. */
  readonly repairedRows: number;
  readonly repairedAt: Date | null;
  /** Why nothing is mapped, or why only a comparison finds changes. */
  readonly problem: { readonly message: string; readonly since: Date } | null;
};

type RunningComparison = {
  readonly since: Date;
  /** Why it runs; null if the worker compares rows without a cause. */
  readonly reason: string | null;
  /** Rows that are compared. */
  readonly rows: number;
  /** An estimate of all rows; null before Postgres has one. */
  readonly expectedRows: number | null;
  readonly secondsLeft: number | null;
};

type Refusal = {
  readonly view: MappedView;
  /** Null if the view itself fails for these keys. */
  readonly column: string | null;
  readonly reason: string;
  readonly rows: number;
  readonly since: Date;
  /** External ids of up to three rows. */
  readonly examples: readonly string[];
};

/** Deletions that wait for `npx crm-data-service mapping apply --accept-deletions`. */
type HeldDeletion = {
  readonly view: MappedView;
  readonly organization: string;
  readonly name: string;
  readonly rows: number;
  readonly since: Date;
};

/** A wrong view may refuse all rows of a shop. Of a million, reading the status was measured at 50 to 100 ms. */
export const maxCounted = 10_000;
/** The message of an exception may name its row, so that each row has its own reason. */
const maxReasons = 20;

export const mappingStatusRights: TableRights = {
  organizations: 'select',
  mapping_state: 'select',
  mapping_changes: 'select',
  mapping_failures: 'select',
  mapping_held_deletions: 'select',
};

/** Null without a mapping. */
export async function readMappingStatus(database: Database): Promise<MappingStatus | null> {
  const state = await readState(database);
  // Without a mapping, the role needs no right on the other tables.
  if (state === null) return null;
  return {
    ...state,
    pendingChanges: await countPendingChanges(database),
    ...(await readRefusals(database)),
    heldDeletions: await readHeldDeletions(database),
  };
}

async function readState(database: Database) {
  const { rows } = await database.query<{
    asOf: bigint | null;
    lagSeconds: number | null;
    copiedAt: Date | null;
    comparedAt: Date | null;
    repairedRows: number;
    repairedAt: Date | null;
    problem: string | null;
    since: Date;
    comparison: Omit<RunningComparison, 'since' | 'secondsLeft'> | null;
    comparedSince: Date | null;
    comparedSeconds: number | null;
  }>(
    `select ${microsecondsOf('as_of')} as "asOf",
       greatest(0, round(extract(epoch from clock_timestamp() - as_of)::numeric, 1))::float8 as "lagSeconds",
       copied_at as "copiedAt", compared_at as "comparedAt",
       repaired::float8 as "repairedRows", repaired_at as "repairedAt",
       problem, coalesce(problem_since, now()) as since, comparison,
       (comparison ->> 'since')::timestamptz as "comparedSince",
       extract(epoch from clock_timestamp() - (comparison ->> 'since')::timestamptz)::float8 as "comparedSeconds"
     from mapping_state`,
  );
  const [row] = rows;
  if (row === undefined) return null;
  const { asOf, lagSeconds, problem, since, ...others } = row;
  const { comparison, comparedSince, comparedSeconds, ...state } = others;
  return {
    ...state,
    comparison:
      comparison === null || comparedSince === null || comparedSeconds === null
        ? null
        : {
            ...comparison,
            since: comparedSince,
            secondsLeft: secondsLeft(comparison, comparedSeconds),
          },
    asOf: asOf === null ? null : formatInstant(asOf),
    lagSeconds: asOf === null ? null : lagSeconds,
    problem: problem === null ? null : { message: problem, since },
  };
}

function secondsLeft(
  { rows, expectedRows }: Pick<RunningComparison, 'rows' | 'expectedRows'>,
  seconds: number,
): number | null {
  if (expectedRows === null || rows === 0) return null;
  return Math.ceil((Math.max(0, expectedRows - rows) * seconds) / rows);
}

async function countPendingChanges(database: Database): Promise<number> {
  const { rows } = await database.query<{ changes: number }>(
    `select count(*)::int as changes from (select from ${queuedEntries} as queued limit $1) as counted`,
    [maxCounted],
  );
  return rows[0]?.changes ?? 0;
}

async function readRefusals(database: Database) {
  const { rows } = await database.query<Refusal & { total: number }>(
    `select view, column_name as column, reason, count(*)::int as rows, min(failed_at) as since,
       (array_agg(external_id order by external_id collate "C"))[1:3] as examples,
       (sum(count(*)) over ())::int as total
     from (select * from mapping_failures limit $1) as counted
     group by view, column_name, reason
     order by count(*) desc, view, column_name, reason
     limit $2`,
    [maxCounted, maxReasons],
  );
  return {
    refusedRows: rows[0]?.total ?? 0,
    refusals: rows.map(({ total: _, ...refusal }) => refusal),
  };
}

async function readHeldDeletions(database: Database): Promise<HeldDeletion[]> {
  const { rows } = await database.query<HeldDeletion & { id: bigint }>(
    `select view, id, name, rows::float8, held_at as since
     from mapping_held_deletions join organizations on organizations.id = organization_id
     order by rows desc, view, id`,
  );
  return rows.map(({ id, ...held }) => ({ ...held, organization: encodeId('organization', id) }));
}
