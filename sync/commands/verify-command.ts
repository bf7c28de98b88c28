import { exitCodes } from '../../src/commands/command-line.ts';
import { formatInstant } from '../../src/domain/instant.ts';
import { encodeId } from '../../src/domain/public-id.ts';
import type { Organization } from '../../src/postgres/organizations.ts';
import { OperatorError } from '../../src/process/operator-error.ts';
import { describeFailure } from '../failure.ts';
import type { PurchaseRange } from '../verification/purchase-range.ts';
import { type Repair, type Repairs, repair } from '../verification/repair.ts';
import { writeVerificationRecord } from '../verification/verification-record.ts';
import {
  nothingFound,
  type RangeDifference,
  type Verification,
  verifyOrganization,
} from '../verification/verify.ts';
import { repairsOf } from './repairs.ts';
import { publishedContentsOf } from './stores.ts';
import type { WorkerContext } from './worker-process.ts';

type VerifyCommand = {
  readonly organizations: readonly Organization[];
  /** The command names the organization, instead of verifying all of them. */
  readonly isNamed: boolean;
  readonly isToRepair: boolean;
  readonly json: boolean;
  readonly stopped: AbortSignal;
};

// A pause of a quarter of each part leaves Postgres a fifth of the time.
const pauseFactor = 0.25;
const maxExamples = 5;

/** Verifies one organization after the other, prints the results, and returns the exit code. */
export async function verifyAll(context: WorkerContext, command: VerifyCommand): Promise<number> {
  const { stopped } = command;
  const reports: ReturnType<typeof asJson>[] = [];
  let hasFailed = false;
  for (const organization of command.organizations) {
    const [found, repaired] = await verifyOne(context, command, organization).catch(
      (error: unknown): [Verification, null] => {
        if (stopped.aborted) throw new OperatorError('Stopped before the end of the comparison.');
        return [notCompared(error), null];
      },
    );
    const { state } = repaired?.outcome ?? found;
    // A new organization has no generation yet. A named one must have a generation.
    hasFailed ||= state === 'not published' ? command.isNamed : state !== 'equal';
    if (command.json) reports.push(asJson(organization, found, repaired));
    else console.log(asText(organization, found, repaired));
  }
  if (command.json) console.log(JSON.stringify(reports, null, 2));
  return hasFailed ? exitCodes.failed : exitCodes.done;
}

async function verifyOne(
  context: WorkerContext,
  { isToRepair, stopped }: VerifyCommand,
  { id }: Organization,
): Promise<[found: Verification, repaired: Repair | null]> {
  const { database, settings } = context;
  const { dataDirectory } = settings;
  const verify = () =>
    verifyOrganization({
      organizationId: id,
      database,
      open: publishedContentsOf(settings),
      signal: stopped,
      pauseFactor,
    });
  const found = await verify();
  const repaired = isToRepair ? await repair(found, repairsOf(context, id, stopped), verify) : null;
  stopped.throwIfAborted();
  if (found.state !== 'not published') {
    await writeVerificationRecord(dataDirectory, id, found, repaired);
  }
  return [found, repaired];
}

/** The failure of one organization does not end the command. */
function notCompared(error: unknown): Verification {
  return { ...nothingFound, state: 'not comparable', reason: describeFailure(error).message };
}

function asText({ id, name }: Organization, found: Verification, repaired: Repair | null): string {
  const title = `${encodeId('organization', id)} ${name}`;
  if (repaired === null) return `${title}: ${describe(found)}`;
  const { repairs, outcome, failure } = repaired;
  const done = repairs.map((kind) => repairTexts[kind]).join(', then ');
  const end = failure === null ? `now ${describe(outcome)}` : `the repair failed: ${failure}`;
  return `${title}: ${describe(found)}\n  ${done === '' ? end : `${done}; ${end}`}`;
}

const repairTexts: Readonly<Record<keyof Repairs, string>> = {
  reread: 'read again',
  rebuild: 'rebuilt',
};

/** A summary, and one line for each difference. */
function describe(verification: Verification): string {
  const { state, reason, purchases, changedSince, differences } = verification;
  const details = differences.map(differenceAsText);
  if (state === 'not published') return `${reason}`;
  if (state !== 'equal' && state !== 'differs') {
    return [`cannot be compared: ${reason}`, ...details].join('\n');
  }
  const differing = `${differences.length} ${differences.length === 1 ? 'range differs' : 'ranges differ'}`;
  const summary = state === 'equal' ? 'equal' : differing;
  const changed = changedSince === 0 ? '' : ` (${formatCount(changedSince)} changed since)`;
  return [`${formatCount(purchases)} purchases compared, ${summary}${changed}`, ...details].join(
    '\n',
  );
}

function differenceAsText(difference: RangeDifference): string {
  const { publishedCount, postgresCount, ids } = difference;
  const { createdSince, createdUntil } = boundsOf(difference);
  const counts = `${formatCount(publishedCount)} published, ${formatCount(postgresCount)} in Postgres`;
  const isAll = createdSince === null && createdUntil === null;
  const created = isAll
    ? `  ${counts}`
    : `  created ${createdSince ?? '…'} to ${createdUntil ?? '…'}: ${counts}`;
  if (ids === null) return created;
  const differ = ids.length === 1 ? 'differs' : 'differ';
  return `${created}; ${formatCount(ids.length)} ${differ}: ${examplesOf(ids).join(', ')}`;
}

function asJson({ id, name }: Organization, found: Verification, repaired: Repair | null) {
  return {
    organization: encodeId('organization', id),
    name,
    ...findingsAsJson(found),
    repair: repaired && {
      repairs: repaired.repairs,
      outcome: findingsAsJson(repaired.outcome),
      failure: repaired.failure,
    },
  };
}

function findingsAsJson(verification: Verification) {
  return {
    ...verification,
    asOf: verification.asOf === null ? null : formatInstant(verification.asOf),
    differences: verification.differences.map(({ after, until, ids, ...counts }) => ({
      ...boundsOf({ after, until }),
      ...counts,
      differing: ids === null ? null : ids.length,
      examples: examplesOf(ids ?? []),
    })),
  };
}

/** Creation times, also of purchases that other ranges hold; null at the first and last purchase. */
const boundsOf = ({ after, until }: PurchaseRange) => ({
  createdSince: after === null ? null : formatInstant(after.createdAt),
  createdUntil: until === null ? null : formatInstant(until.createdAt),
});

const examplesOf = (ids: readonly bigint[]): string[] =>
  ids.slice(0, maxExamples).map((id) => encodeId('purchase', id));

const formatCount = (count: number): string => count.toLocaleString('en');
