import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { encodeId } from '../../src/domain/public-id.ts';
import { readVerificationRecord, writeVerificationRecord } from './record.ts';
import { type Repairs, repair } from './repair.ts';
import { type Verification, type VerifyOptions, verifyOrganization } from './verify.ts';

export type ContinuousVerification = Pick<
  VerifyOptions,
  'database' | 'dataDirectory' | 'duckdb'
> & {
  /** How old an organization's last verification may become, milliseconds. */
  readonly everyMs: number;
  /** Whose turn it may be; asked again before each look. */
  organizations(): readonly bigint[];
  repairsFor(organizationId: bigint): Repairs;
  readonly log: Logger;
  readonly signal: AbortSignal;
};

// Low priority: after each part it rests, so that it takes at most a twentieth of one core.
const rest = 19;
const longestPauseMs = 60_000;
/** A worker that has just started has other things to do. */
const firstAfterMs = 60_000;

/**
 * Verifies one organization after the other, each once in `everyMs`, and
 * repairs what differs, until the signal is aborted. What it finds it logs and
 * records; it never rejects.
 */
export async function verifyContinuously(options: ContinuousVerification): Promise<void> {
  const { everyMs, dataDirectory, signal } = options;
  const pauseMs = Math.min(longestPauseMs, everyMs / 10);
  const beginAt = performance.now() + Math.min(firstAfterMs, everyMs);
  /** Monotonic; what could not be verified waits for its next turn, too. */
  const attemptedAt = new Map<bigint, number>();
  const isDue = (id: bigint): boolean => {
    const last = attemptedAt.get(id);
    if (performance.now() < (last === undefined ? beginAt : last + everyMs)) return false;
    const record = readVerificationRecord(dataDirectory, id);
    return record === null || Date.now() - Date.parse(record.at) >= everyMs;
  };
  while (!signal.aborted) {
    for (const id of options.organizations()) {
      if (signal.aborted || !isDue(id)) continue;
      attemptedAt.set(id, performance.now());
      await verifyOne(options, id);
    }
    await sleep(pauseMs, undefined, { signal }).catch(() => {});
  }
}

async function verifyOne(options: ContinuousVerification, organizationId: bigint): Promise<void> {
  const { dataDirectory, signal } = options;
  const log = options.log.child({ organization: encodeId('organization', organizationId) });
  const verify = () => verifyOrganization({ ...options, organizationId, rest });
  try {
    const found = await verify();
    if (found.state === 'not published') return;
    tell(log, found);
    const repaired = await repair(found, options.repairsFor(organizationId), verify);
    signal.throwIfAborted();
    if (repaired !== null) {
      const { repairs, outcome, failure } = repaired;
      const details = { repairs, state: outcome.state };
      if (failure === null) log.warn(details, 'repaired what differed from Postgres');
      else log.error({ ...details, failure }, 'what differs from Postgres could not be repaired');
    }
    await writeVerificationRecord(dataDirectory, organizationId, found, repaired);
  } catch (error) {
    if (!signal.aborted) log.warn({ err: error }, 'could not be verified');
  }
}

function tell(log: Logger, verification: Verification): void {
  const { state, reason, purchases, differences, dictionaries } = verification;
  if (state === 'equal') log.info({ purchases }, 'verified: equal to Postgres');
  else if (state === 'not comparable') log.info({ reason }, 'cannot be verified now');
  else {
    log.error(
      { reason, ranges: differences.length, dictionaries: dictionaries.length },
      'what is published differs from Postgres',
    );
  }
}
