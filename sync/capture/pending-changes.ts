import sql, { raw } from 'sql-template-tag';
import { formatInstant } from '../../src/domain/instant.ts';
import { type CaptureProblem, captureProblem } from '../../src/postgres/capture.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { sourceIdentity } from '../../src/postgres/source-identity.ts';
import { isTokenKnown } from './history-token.ts';
import { isPrunedBeyond } from './log-sufficiency.ts';
import { type SnapshotRow, snapshotColumns, snapshotFrom } from './snapshot.ts';
import type { Watermark } from './watermark.ts';

/** Committed changes that a generation does not show yet. */
export type Pending = {
  /** Null if the change log lacks changes: the worker then rebuilds the generation. */
  readonly changes: number | null;
  readonly ageSeconds: number;
};

type PendingChanges = {
  /** Null if all changes are captured. */
  readonly captureProblem: CaptureProblem | null;
  /** Lacks organizations whose generation shows all changes. */
  readonly byOrganization: ReadonlyMap<bigint, Pending>;
};

/** Compares the published generations with the change log, in one statement. */
export async function readPendingChanges(
  database: Database,
  published: ReadonlyMap<bigint, Omit<Watermark, 'organizationId'>>,
): Promise<PendingChanges> {
  const generations = [...published.values()];
  const { rows: facts } = await database.query<SnapshotRow>(`select ${snapshotColumns}`);
  const now = facts[0] as SnapshotRow;
  const problem = captureProblem(now.capture);
  const fingerprint = problem === null ? snapshotFrom(now).fingerprint : null;
  const { rows } = await database.query<{
    id: bigint;
    is_followed: boolean;
    changes: bigint;
    age: number;
  }>(sql`
    select id, is_followed, count(transaction_id) as changes,
      extract(epoch from now() - min(as_of))::float8 as age
    from (
      select generations.id, snapshot, as_of,
        coalesce(fingerprint = ${fingerprint} and source = ${raw(sourceIdentity)}, false)
        and ${isTokenKnown(sql`generations.token::uuid`)}
        and not ${isPrunedBeyond(sql`generations.id`, sql`snapshot`)} as is_followed
      from unnest(
        ${[...published.keys()].map(String)}::bigint[],
        ${generations.map(({ source }) => source)}::text[],
        ${generations.map(({ fingerprint }) => fingerprint)}::text[],
        ${generations.map(({ token }) => token || null)}::text[],
        ${generations.map(({ snapshot }) => snapshot)}::pg_snapshot[],
        ${generations.map(({ asOf }) => formatInstant(asOf))}::timestamptz[]
      ) as generations (id, source, fingerprint, token, snapshot, as_of)
      left join organizations on organizations.id = generations.id
    ) as published
    left join purchase_changes on organization_id = id and purchase_changes.token is null
      and not pg_visible_in_snapshot(transaction_id, snapshot)
    group by id, is_followed
    having not is_followed or count(transaction_id) > 0`);
  return {
    captureProblem: problem,
    byOrganization: new Map(
      rows.map(({ id, is_followed: isFollowed, changes, age }) => [
        id,
        { changes: isFollowed ? Number(changes) : null, ageSeconds: age },
      ]),
    ),
  };
}
