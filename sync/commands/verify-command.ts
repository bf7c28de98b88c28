import { exitCodes } from '../../src/commands/command-line.ts';
import { formatInstant } from '../../src/domain/instant.ts';
import { encodeId } from '../../src/domain/public-id.ts';
import type { OrganizationRow } from '../../src/postgres/organizations.ts';
import { OperatorError } from '../../src/process/operator-error.ts';
import { describeFailure } from '../describe-failure.ts';
import { writeVerificationRecord } from '../verification/verification-record.ts';
import {
  nothingFound,
  type Repair,
  repair,
  type Verification,
  verifyOrganization,
} from '../verification/verify.ts';
import { rebuildOrganization } from './rebuild.ts';
import { publishedContentsOf } from './stores.ts';
import type { WorkerContext } from './worker-process.ts';

type VerifyCommand = {
  readonly organizations: readonly OrganizationRow[];
  /** The command names the organization, instead of verifying all of them. */
  readonly isNamed: boolean;
  readonly isToRepair: boolean;
  readonly json: boolean;
  readonly stopped: AbortSignal;
};

// A pause of a quarter of each part leaves Postgres a fifth of the time.
const pauseFactor = 0.25;

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
  { id }: OrganizationRow,
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
  const rebuild = () => rebuildOrganization(context, id, { differsFromPostgres: true, stopped });
  const repaired = isToRepair ? await repair(found, rebuild, verify) : null;
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

function asText(
  { id, name }: OrganizationRow,
  found: Verification,
  repaired: Repair | null,
): string {
  const summary = `${encodeId('organization', id)} ${name}: ${describe(found)}`;
  if (repaired === null) return summary;
  const { outcome, failure } = repaired;
  const end =
    failure === null ? `rebuilt; now ${describe(outcome)}` : `the repair failed: ${failure}`;
  return `${summary}\n  ${end}`;
}

function describe(verification: Verification): string {
  const { state, reason, purchases, changedSince, differing } = verification;
  if (state === 'not published') return `${reason}`;
  if (state !== 'equal' && state !== 'differs') return `cannot be compared: ${reason}`;
  const examples = verification.examples.map((each) => encodeId('purchase', each));
  const named = examples.length === 0 ? '' : `: ${examples.join(', ')}`;
  const more = differing > examples.length && examples.length > 0 ? ', …' : '';
  const differences = `${formatCount(differing)} ${differing === 1 ? 'differs' : 'differ'}`;
  const summary = state === 'equal' ? 'equal' : `${differences}${named}${more}`;
  const changed = changedSince === 0 ? '' : ` (${formatCount(changedSince)} changed since)`;
  return `${formatCount(purchases)} purchases compared, ${summary}${changed}`;
}

function asJson({ id, name }: OrganizationRow, found: Verification, repaired: Repair | null) {
  return {
    organization: encodeId('organization', id),
    name,
    ...findingsAsJson(found),
    repair: repaired && {
      outcome: findingsAsJson(repaired.outcome),
      failure: repaired.failure,
    },
  };
}

const findingsAsJson = (verification: Verification) => ({
  ...verification,
  asOf: verification.asOf === null ? null : formatInstant(verification.asOf),
  examples: verification.examples.map((id) => encodeId('purchase', id)),
});

const formatCount = (count: number): string => count.toLocaleString('en');
