import { formatInstant } from '../../src/domain/instant.ts';
import { encodeId } from '../../src/domain/public-id.ts';
import type { Organization } from '../../src/postgres/organizations.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { organizationDirectory } from '../../src/purchase-store/published-generation.ts';
import { readUpToDate } from '../../src/purchase-store/up-to-date.ts';
import { type Pending, readPendingChanges } from '../capture/pending-changes.ts';
import { describeFailure, type Failure } from '../failure.ts';
import { isOfShard } from '../shard.ts';
import {
  readVerificationRecord,
  type VerificationRecord,
} from '../verification/verification-record.ts';
import { type HorizonHolder, readHorizonHolders } from './horizon.ts';
import { type PublishedStatus, type ReadPublished, readPublishedFiles } from './published.ts';
import { estimateProgress, type OrganizationReport, readReport } from './report.ts';
import { readWorkerStatus, type WorkerStatus } from './worker-status.ts';

export type OrganizationStatus = {
  readonly organization: string;
  readonly name: string;
  readonly state:
    | 'live'
    | 'waiting to load'
    | 'loading'
    | 'rebuilding'
    | 'compacting'
    | 'failed'
    /** CURRENT, which names the published generation, cannot be read. */
    | 'damaged'
    /** Changes of purchases are not captured. */
    | 'not captured'
    /** No worker has this organization. */
    | 'stopped';
  /** The progress of a load, 0 to 100; null without a load. */
  readonly percent: number | null;
  readonly rowsPerSecond: number | null;
  readonly secondsLeft: number | null;
  readonly purchases: number | null;
  readonly fileBytes: number | null;
  readonly generation: string | null;
  /** The instant that responses show in X-Data-As-Of. */
  readonly asOf: string | null;
  /** Committed changes that the generation lacks; null if the change log does not have them. */
  readonly pendingChanges: number | null;
  /** The age of the oldest possible result; 0 without pending changes. */
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
  /** Why Postgres or ClickHouse refused a part of the status. */
  readonly failure: Failure | null;
};

export async function readStatus(
  database: Database,
  dataDirectory: string,
  dataFolderId: string,
  organizations: readonly Organization[],
  pollIntervalMs = 0,
  readPublished: ReadPublished = readPublishedFiles(dataDirectory),
): Promise<Status> {
  const upToDate = readUpToDate(dataDirectory);
  let failure: Failure | null = null;
  const orElse = <Result>(reading: Promise<Result>, otherwise: Result): Promise<Result> =>
    reading.catch((error) => {
      failure ??= describeFailure(error);
      return otherwise;
    });
  const stored = await orElse(readPublished(organizations.map(({ id }) => id)), new Map());
  const published = new Map<bigint, Exclude<PublishedStatus, 'damaged'>>();
  for (const [id, generation] of stored) {
    if (generation === 'damaged') continue;
    // The API sends the later one as X-Data-As-Of.
    const shown = upToDate.instantOf(id, generation.name) ?? 0n;
    const asOf = shown > generation.asOf ? shown : generation.asOf;
    published.set(id, { ...generation, asOf });
  }
  const pending = await orElse(readPendingChanges(database, published), null);
  const workers = await readWorkerStatus(database, dataDirectory, dataFolderId, pollIntervalMs);
  const captureProblem = pending?.captureProblem ?? null;
  return {
    workers,
    horizonHolders: await orElse(readHorizonHolders(database), []),
    captureProblem: captureProblem && {
      message: captureProblem.message,
      advice: captureProblem.advice,
    },
    organizations: organizations.map(({ id, name }) => {
      const generation = published.get(id) ?? null;
      return {
        organization: encodeId('organization', id),
        name,
        ...describeReport(
          readReport(organizationDirectory(dataDirectory, id)),
          workers.some(({ shard }) => isOfShard(id, shard)),
        ),
        ...(stored.get(id) === 'damaged' ? { state: 'damaged' as const } : {}),
        ...(captureProblem === null ? {} : { state: 'not captured' as const }),
        verified: readVerificationRecord(dataDirectory, id),
        purchases: generation?.purchases ?? null,
        fileBytes: generation?.bytes ?? null,
        generation: generation?.name ?? null,
        asOf: generation === null ? null : formatInstant(generation.asOf),
        ...(generation === null || pending === null
          ? unknownLag
          : lagOf(pending.byOrganization.get(id))),
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
  return { state, rowsPerSecond: progress.rowsPerSecond, ...estimateProgress(progress), failure };
}

const unknownLag = { pendingChanges: null, lagSeconds: null };

function lagOf(pending: Pending | undefined) {
  if (pending === undefined) return { pendingChanges: 0, lagSeconds: 0 };
  const lagSeconds = Math.max(0, Math.round(pending.ageSeconds * 10) / 10);
  return { pendingChanges: pending.changes, lagSeconds };
}
