import { existsSync } from 'node:fs';
import { formatInstant } from '../../src/domain/instant.ts';
import { encodeId } from '../../src/domain/public-id.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import {
  type MappingStatus,
  readMappingStatus,
} from '../../src/postgres/mapping/mapping-status.ts';
import type { OrganizationRow } from '../../src/postgres/organizations.ts';
import { diskProblem } from '../../src/process/disk-space.ts';
import { isOfShard } from '../../src/purchase-store/ticks/shard.ts';
import { type Pending, readPendingChanges } from '../capture/pending-changes.ts';
import { describeFailure, type Failure } from '../describe-failure.ts';
import type { OrganizationReport, OrganizationState } from '../organization-report.ts';
import {
  readVerificationRecord,
  type VerificationRecord,
} from '../verification/verification-record.ts';
import {
  type PublishedStatus,
  type PublishedStore,
  type ReadPublished,
  readPublishedFiles,
} from './published-status.ts';
import { readWorkerState, readWorkerStatus, type WorkerStatus } from './worker-status.ts';

export type OrganizationStatus = {
  readonly organization: string;
  readonly name: string;
  readonly state: /** As the worker reports it (`reportOf` in organization.ts). */
    | OrganizationState
    /** CURRENT, or a file that it names, cannot be read. */
    | 'damaged'
    /** Changes of purchases are not captured. */
    | 'not captured'
    /** No worker has this organization. */
    | 'stopped';
  /** The progress of a load, 0 to 100; null without a load. */
  readonly percent: number | null;
  readonly rowsPerSecond: number | null;
  /** Null also before the first rows. */
  readonly secondsLeft: number | null;
  /** Purchases at the last load or compaction. */
  readonly purchases: number | null;
  /** Changes that were published since the last load or compaction. */
  readonly changes: number | null;
  readonly fileBytes: number | null;
  /** The instant that responses show in X-Data-As-Of. */
  readonly asOf: string | null;
  /** Committed changes that are not published; null if the change log does not have them. */
  readonly pendingChanges: number | null;
  /** The age of the oldest possible result; 0 without changes that are pending or not mapped. */
  readonly lagSeconds: number | null;
  /** The result of the last verification; null before the first one. */
  readonly verified: VerificationRecord | null;
  /** The cause of the last failure, the remedy, and the time of the next attempt. */
  readonly failure: OrganizationReport['failure'];
};

export type Status = {
  readonly workers: readonly WorkerStatus[];
  readonly organizations: readonly OrganizationStatus[];
  readonly horizonHolders: readonly HorizonHolder[];
  /** Why changes of purchases are not captured, and the remedy; null if they are captured. */
  readonly captureProblem: { readonly message: string; readonly advice: string } | null;
  /** Why the worker cannot write to DATA_DIR, not even its failure; null if the disk has space. */
  readonly diskProblem: string | null;
  /** The mapping of a shop's own tables; null without one. */
  readonly mapping: MappingStatus | null;
  /** Why Postgres or ClickHouse refused a part of the status. */
  readonly failure: Failure | null;
};

export async function readStatus(
  database: Database,
  dataDirectory: string,
  dataFolderId: string,
  organizations: readonly OrganizationRow[],
  pollIntervalMs = 0,
  readPublished: ReadPublished = readPublishedFiles(dataDirectory),
): Promise<Status> {
  let failure: Failure | null = null;
  const orElse = <Result>(reading: Promise<Result>, otherwise: Result): Promise<Result> =>
    reading.catch((error) => {
      failure ??= describeFailure(error);
      return otherwise;
    });
  const store = await orElse(readPublished(organizations.map(({ id }) => id)), null);
  const stored: PublishedStore['organizations'] = store?.organizations ?? new Map();
  const published = new Map<bigint, Exclude<PublishedStatus, 'damaged'>>();
  for (const [id, found] of stored) {
    if (found !== 'damaged') published.set(id, found);
  }
  // At the same time, so that together they wait for one timeout.
  const [pending, workers, horizonHolders, mapping] = await Promise.all([
    orElse(readPendingChanges(database, published), null),
    readWorkerStatus({
      database,
      dataDirectory,
      dataFolderId,
      pollIntervalMs,
      ticks: store?.ticks ?? null,
    }),
    orElse(readHorizonHolders(database), []),
    orElse(readMappingStatus(database), null),
  ]);
  const reports = workers.map(({ shard }) => ({
    shard,
    organizations: readWorkerState(dataDirectory, shard)?.organizations ?? {},
  }));
  const captureProblem = pending?.captureProblem ?? null;
  return {
    workers,
    diskProblem: existsSync(dataDirectory) ? diskProblem(dataDirectory) : null,
    horizonHolders,
    mapping,
    captureProblem: captureProblem && {
      message: captureProblem.message,
      advice: captureProblem.advice,
    },
    organizations: organizations.map(({ id, name }) => {
      const shown = published.get(id) ?? null;
      const worker = reports.find(({ shard }) => isOfShard(id, shard));
      return {
        organization: encodeId('organization', id),
        name,
        ...(worker === undefined
          ? { state: 'stopped' as const, ...noProgress }
          : describeReport(worker.organizations[String(id)] ?? null, shown !== null)),
        ...(stored.get(id) === 'damaged' ? { state: 'damaged' as const } : {}),
        ...(captureProblem === null ? {} : { state: 'not captured' as const }),
        verified: readVerificationRecord(dataDirectory, id),
        purchases: shown?.purchases ?? null,
        changes: shown?.changes ?? null,
        fileBytes: shown?.bytes ?? null,
        asOf: shown === null ? null : formatInstant(shown.asOf),
        ...(shown === null || pending === null
          ? unknownLag
          : lagOf(pending.byOrganization.get(id))),
      };
    }),
    failure,
  };
}

function describeReport(
  report: OrganizationReport | null,
  isPublished: boolean,
): Pick<OrganizationStatus, 'state' | 'percent' | 'rowsPerSecond' | 'secondsLeft' | 'failure'> {
  if (report === null) return { state: isPublished ? 'live' : 'waiting to load', ...noProgress };
  const { state, progress, failure } = report;
  if (progress === null || state === 'failed') return { state, ...noProgress, failure };
  const { loaded, expected, rowsPerSecond } = progress;
  const percent = Math.floor((100 * loaded) / Math.max(1, loaded, expected));
  const rowsLeft = Math.max(0, expected - loaded);
  const secondsLeft = rowsPerSecond === 0 ? null : Math.ceil(rowsLeft / rowsPerSecond);
  return { state, percent, rowsPerSecond, secondsLeft, failure };
}

const noProgress = { percent: null, rowsPerSecond: null, secondsLeft: null, failure: null };

const unknownLag = { pendingChanges: null, lagSeconds: null };

function lagOf(pending: Pending | undefined) {
  if (pending === undefined) return { pendingChanges: 0, lagSeconds: 0 };
  const lagSeconds = Math.max(0, Math.round(pending.ageSeconds * 10) / 10);
  return { pendingChanges: pending.changes, lagSeconds };
}

/** A transaction or slot that holds back the horizon of vacuum and of pruning. */
type HorizonHolder = {
  readonly kind: 'transaction' | 'prepared transaction' | 'replication slot' | 'standby';
  /** A process id, or a name. */
  readonly name: string;
  readonly ageSeconds: number | null;
  /** The current or last statement; null if unknown. */
  readonly query: string | null;
};

/** Shorter transactions hold back little. */
const minAgeSeconds = 60;

/** The oldest transaction comes first. */
async function readHorizonHolders(database: Database): Promise<HorizonHolder[]> {
  const { rows } = await database.query<HorizonHolder>(`
    select 'transaction' as kind, pid::text as name,
      extract(epoch from now() - xact_start)::int as "ageSeconds",
      left(regexp_replace(query, '\\s+', ' ', 'g'), 120) as query
    from pg_stat_activity
    where (backend_xid is not null or backend_xmin is not null)
      and backend_type = 'client backend'
      and datname = current_database() and pid <> pg_backend_pid()
      and xact_start < now() - interval '${minAgeSeconds} seconds'
    union all
    select 'standby', coalesce(client_addr::text, application_name),
      extract(epoch from now() - backend_start)::int, null
    from pg_stat_replication
    where age(backend_xmin) > 1000000
    union all
    select 'prepared transaction', gid, extract(epoch from now() - prepared)::int, null
    from pg_prepared_xacts
    where database = current_database()
      and prepared < now() - interval '${minAgeSeconds} seconds'
    union all
    select 'replication slot', slot_name, null, null
    from pg_replication_slots
    where xmin is not null and not active
    order by "ageSeconds" desc nulls last`);
  return rows;
}
