import { mappingState } from '../connection/claimed-instant.ts';
import type { Database } from '../connection/pool.ts';
import { databaseIdentity } from '../connection/source-identity.ts';

/**
 * Decides `mapping_state.as_of`, which bounds the instants of mapped organizations: all commits of the shop from
 * before it are mapped.
 *
 * | event                                                  | as_of                                        |
 * |--------------------------------------------------------|----------------------------------------------|
 * | the queue is empty, and no comparison is due           | the instant of the snapshot                  |
 * | a comparison is due, or runs                           | stays                                        |
 * | a comparison of all rows ends, also if another is due  | the instant at which it began                |
 *
 * A comparison is due while `structure` is not the present one (structure.ts). It is null until a comparison
 * ends that no write has asked to repeat, and that ran with triggers.
 */
export type ComparisonBegin = {
  readonly structure: string;
  /** How often a comparison was asked for: rows may have changed without a logged key. */
  readonly asked: bigint;
  /** The instant of the snapshot. */
  readonly at: Date;
};

export type Claimed = Omit<ComparisonBegin, 'structure'> & {
  readonly isComplete: boolean;
  /** The structure with which all rows were compared last; null while a comparison is due. */
  readonly before: string | null;
  /** Why a comparison is due; null if that is not known. */
  readonly reason: string | null;
  /** What `status` shows as the problem. */
  readonly problem: string | null;
};

/** Of a mapping that was removed meanwhile. */
const removed: Claimed = {
  ...{ isComplete: false, before: null, asked: 0n, at: new Date(0), problem: null, reason: null },
};

/** Claims the snapshot of a transaction that has mapped all changes, unless a comparison is due or asked for. */
export async function claimSnapshot(
  connection: Pick<Database, 'query'>,
  structure: string,
  isComparisonAskedFor: boolean,
): Promise<Claimed> {
  const { rows } = await connection.query<Claimed>(
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
  return rows[0] ?? removed;
}

/** Claims the begin of a comparison of all rows that has ended. */
export async function claimComparison(
  connection: Pick<Database, 'query'>,
  { structure, asked, at }: ComparisonBegin,
  options: {
    /** Another comparison is due, also if one was asked for since the begin. */
    readonly isRepeated?: boolean;
    /** Tables lacked triggers, so later changes are unseen. */
    readonly isBlind?: boolean;
    /** Rows that differed. */
    readonly corrected?: number;
  } = {},
): Promise<void> {
  const { isRepeated = false, isBlind = false, corrected = 0 } = options;
  await connection.query(
    `update mapping_state as state
     set as_of = greatest(as_of, $1), compared_at = now(), comparison = null,
       structure = case when is_repeated then state.structure when not $5 then $2 end,
       comparison_reason = case when is_repeated then comparison_reason end,
       repaired = repaired + $6, repaired_at = case when $6 > 0 then now() else repaired_at end
     from (select $4 or asked <> $3 as is_repeated, ctid from ${mappingState} as present) as now
     where state.ctid = now.ctid`,
    [at, structure, asked, isRepeated, isBlind, corrected],
  );
}
