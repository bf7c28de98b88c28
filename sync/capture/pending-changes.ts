import sql, { raw } from 'sql-template-tag';
import { formatInstant } from '../../src/domain/instant.ts';
import type { CaptureProblem } from '../../src/postgres/capture/capture.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { sourceIdentity } from '../../src/postgres/connection/source-identity.ts';
import { isTokenKnown } from './history-token.ts';
import { isPrunedBeyond } from './missing-changes.ts';
import {
  problemOf,
  readMapped,
  type SnapshotRow,
  snapshotColumns,
  snapshotFrom,
} from './snapshot.ts';
import type { Watermark } from './watermark.ts';

/** Committed changes that are not published yet; 0 while an organization waits for its mapping. */
export type Pending = {
  /** Null if the change log lacks changes: the worker then loads the organization. */
  readonly changes: number | null;
  /** The age of what is published. */
  readonly ageSeconds: number;
};

type PendingChanges = {
  /** Null if all changes are captured. */
  readonly captureProblem: CaptureProblem | null;
  /** Organizations that show all changes are missing. */
  readonly byOrganization: ReadonlyMap<bigint, Pending>;
};

/** Compares what is published with the change log, in one statement. */
export async function readPendingChanges(
  database: Database,
  published: ReadonlyMap<bigint, Watermark & { readonly source: string }>,
): Promise<PendingChanges> {
  const watermarks = [...published.values()];
  const { rows: facts } = await database.query<SnapshotRow>(`select ${snapshotColumns}`);
  const now = facts[0] as SnapshotRow;
  const problem = problemOf(now);
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
      select shown.id, snapshot, as_of,
        coalesce(fingerprint = ${fingerprint} and source = ${raw(sourceIdentity)}, false)
        and ${isTokenKnown(sql`shown.token::uuid`)}
        and not ${isPrunedBeyond(sql`snapshot`)} as is_followed
      from unnest(
        ${[...published.keys()].map(String)}::bigint[],
        ${watermarks.map(({ source }) => source)}::text[],
        ${watermarks.map(({ fingerprint }) => fingerprint)}::text[],
        ${watermarks.map(({ token }) => token || null)}::text[],
        ${watermarks.map(({ snapshot }) => snapshot)}::pg_snapshot[],
        ${watermarks.map(({ asOf }) => formatInstant(asOf))}::timestamptz[]
      ) as shown (id, source, fingerprint, token, snapshot, as_of)
      left join organizations on organizations.id = shown.id
    ) as published
    left join purchase_changes on organization_id = id and purchase_changes.token is null
      and not pg_visible_in_snapshot(transaction_id, snapshot)
    group by id, is_followed
    having not is_followed or count(transaction_id) > 0`);
  const byOrganization = new Map<bigint, Pending>();
  const mapped = await readMapped(database, now);
  if (mapped !== null) {
    const ageSeconds = Number(now.now - mapped.asOf) / 1e6;
    for (const id of published.keys())
      if (mapped.ids.has(id)) byOrganization.set(id, { changes: 0, ageSeconds });
  }
  for (const { id, is_followed: isFollowed, changes, age } of rows) {
    const ageSeconds = Math.max(age, byOrganization.get(id)?.ageSeconds ?? 0);
    byOrganization.set(id, { changes: isFollowed ? Number(changes) : null, ageSeconds });
  }
  return { captureProblem: problem, byOrganization };
}
