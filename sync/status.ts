import sql from 'sql-template-tag';
import { formatInstant } from '../src/domain/instant.ts';
import { encodeId } from '../src/domain/public-id.ts';
import {
  organizationDirectory,
  type PublishedGeneration,
  readPublished,
} from '../src/engines/duckdb/published-generation.ts';
import type { Organization } from '../src/postgres/organizations.ts';
import type { Database } from '../src/postgres/pool.ts';
import { describeFailure, type Failure } from './failure.ts';
import { type HorizonHolder, readHorizonHolders } from './horizon.ts';
import { type OrganizationReport, readReport } from './report.ts';
import { isOfShard } from './shard.ts';
import { isPrunedBeyond } from './source.ts';
import { readVerificationRecord, type VerificationRecord } from './verification/record.ts';
import { readWorkerStatus, type WorkerStatus } from './worker-status.ts';

export type OrganizationStatus = {
  readonly organization: string;
  readonly name: string;
  readonly state:
    | 'live'
    | 'waiting to load'
    | 'loading'
    | 'rebuilding'
    | 'sorting'
    | 'failed'
    /** No worker has this organization. */
    | 'stopped';
  /** How much of a load is done, 0 to 100; null where none is at work. */
  readonly percent: number | null;
  readonly rowsPerSecond: number | null;
  readonly secondsLeft: number | null;
  readonly purchases: number | null;
  readonly fileBytes: number | null;
  readonly generation: string | null;
  readonly asOf: string | null;
  /**
   * Committed changes that the generation does not show yet; null where nobody can tell any
   * more, for the change log was pruned since.
   */
  readonly pendingChanges: number | null;
  /** How long the oldest answer has been wrong at most; 0 where nothing is pending. */
  readonly lagSeconds: number | null;
  /** What the last verification came to; null before the first. */
  readonly verified: VerificationRecord | null;
  /** Why the last attempt failed, what to do, and when the next one comes. */
  readonly failure: OrganizationReport['failure'];
};

export type Status = {
  readonly workers: readonly WorkerStatus[];
  readonly organizations: readonly OrganizationStatus[];
  readonly horizonHolders: readonly HorizonHolder[];
  /** Why Postgres did not give all of this: the role that reads the status is the worker's. */
  readonly failure: Failure | null;
};

/** How far each organization's published purchases are behind Postgres, and what its worker does. */
export async function readStatus(
  database: Database,
  dataDirectory: string,
  dataFolderId: string,
  organizations: readonly Organization[],
  pollIntervalMs = 0,
): Promise<Status> {
  const published = new Map<bigint, PublishedGeneration>();
  for (const { id } of organizations) {
    const generation = readPublished(organizationDirectory(dataDirectory, id));
    if (generation !== null) published.set(id, generation);
  }
  let failure: Failure | null = null;
  const orElse = <Result>(reading: Promise<Result>, otherwise: Result): Promise<Result> =>
    reading.catch((error) => {
      failure ??= describeFailure(error);
      return otherwise;
    });
  const pending = await orElse(countPending(database, published), null);
  const workers = await readWorkerStatus(database, dataDirectory, dataFolderId, pollIntervalMs);
  return {
    workers,
    horizonHolders: await orElse(readHorizonHolders(database), []),
    organizations: organizations.map(({ id, name }) => {
      const generation = published.get(id) ?? null;
      return {
        organization: encodeId('organization', id),
        name,
        ...describeReport(
          readReport(organizationDirectory(dataDirectory, id)),
          workers.some(({ shard }) => isOfShard(id, shard)),
        ),
        verified: readVerificationRecord(dataDirectory, id),
        purchases: generation?.purchases ?? null,
        fileBytes: generation?.bytes ?? null,
        generation: generation?.file ?? null,
        asOf: generation === null ? null : formatInstant(generation.asOf),
        ...(generation === null || pending === null ? unknownLag : lagOf(pending.get(id))),
      };
    }),
    failure,
  };
}

function describeReport(
  report: OrganizationReport | null,
  hasWorker: boolean,
): Pick<OrganizationStatus, 'state' | 'percent' | 'rowsPerSecond' | 'secondsLeft' | 'failure'> {
  const failure = report?.failure ?? null;
  const idle = { percent: null, rowsPerSecond: null, secondsLeft: null, failure };
  if (!hasWorker) return { state: 'stopped', ...idle };
  if (failure !== null) return { state: 'failed', ...idle };
  if (report === null) return { state: 'waiting to load', ...idle };
  if (report.activity === 'following') return { state: 'live', ...idle };
  const { activity: state, progress } = report;
  if (progress === null) return { state, ...idle };
  const { loaded, expected, rowsPerSecond } = progress;
  return {
    state,
    percent: Math.floor((100 * loaded) / Math.max(1, loaded, expected)),
    rowsPerSecond,
    secondsLeft:
      rowsPerSecond === 0 ? null : Math.ceil(Math.max(0, expected - loaded) / rowsPerSecond),
    failure,
  };
}

const unknownLag = { pendingChanges: null, lagSeconds: null };

function lagOf(pending: Pending | undefined) {
  if (pending === undefined) return { pendingChanges: 0, lagSeconds: 0 };
  const lagSeconds = Math.max(0, Math.round(pending.ageSeconds * 10) / 10);
  return { pendingChanges: pending.changes, lagSeconds };
}

type Pending = { readonly changes: number | null; readonly ageSeconds: number };

/** Changes that a generation does not show, and its age; one look at the log for all of them. */
async function countPending(
  database: Database,
  published: ReadonlyMap<bigint, PublishedGeneration>,
): Promise<Map<bigint, Pending>> {
  const generations = [...published.values()];
  const { rows } = await database.query<{ id: bigint; changes: bigint | null; age: number }>(sql`
    select published.id,
      case when not is_pruned then count(transaction_id) end as changes,
      extract(epoch from now() - min(published.as_of))::float8 as age
    from (
      select *, ${isPrunedBeyond(sql`generations.id`, sql`generations.snapshot`)} as is_pruned
      from unnest(
        ${[...published.keys()].map(String)}::bigint[],
        ${generations.map(({ snapshot }) => snapshot)}::pg_snapshot[],
        ${generations.map(({ asOf }) => formatInstant(asOf))}::timestamptz[]
      ) as generations (id, snapshot, as_of)
    ) as published
    -- A TRUNCATE's entry concerns every organization.
    left join (
      select organization_id, transaction_id from purchase_changes where organization_id is not null
      union all
      select organizations.id, transaction_id
      from purchase_changes, organizations
      where purchase_changes.organization_id is null
    ) as purchase_changes on purchase_changes.organization_id = published.id
      and not pg_visible_in_snapshot(purchase_changes.transaction_id, published.snapshot)
    group by published.id, is_pruned
    having is_pruned or count(transaction_id) > 0`);
  return new Map(
    rows.map(({ id, changes, age }) => [
      id,
      { changes: changes === null ? null : Number(changes), ageSeconds: age },
    ]),
  );
}
