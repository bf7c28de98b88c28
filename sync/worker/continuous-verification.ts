import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { encodeId } from '../../src/domain/public-id.ts';
import type { WorkerMetrics } from '../metrics/metrics.ts';
import type { Organization } from '../organization.ts';
import {
  readVerificationRecord,
  writeVerificationRecord,
} from '../verification/verification-record.ts';
import {
  repair,
  type Verification,
  type VerifyOptions,
  verifyOrganization,
} from '../verification/verify.ts';

export type ContinuousVerification = Pick<VerifyOptions, 'database' | 'open'> & {
  readonly dataDirectory: string;
  /** The maximum age of an organization's last verification, in milliseconds. */
  readonly everyMs: number;
  /** The organizations to verify; called before each pass. */
  organizations(): readonly Organization[];
  rebuild(organizationId: bigint, differsFromPostgres: boolean): Promise<void>;
  readonly log: Logger;
  readonly metrics: WorkerMetrics;
  readonly signal: AbortSignal;
};

// A pause of 49 times each part limits verification to a fiftieth of one core.
const pauseFactor = 49;
const maxPauseMs = 60_000;
/** A worker brings its organizations up to date first. */
const firstAfterMs = 60_000;

/**
 * Verifies one organization after the other, each once in `everyMs`, and repairs differences,
 * until the signal is aborted. Logs and records the results, and never rejects.
 */
export async function verifyContinuously(options: ContinuousVerification): Promise<void> {
  const { everyMs, dataDirectory, signal } = options;
  const pauseMs = Math.min(maxPauseMs, everyMs / 10);
  const firstAt = performance.now() + Math.min(firstAfterMs, everyMs);
  const isDue = ({ id, work }: Organization): boolean => {
    const last = work.verificationAt;
    if (performance.now() < (last === null ? firstAt : last + everyMs)) return false;
    const record = readVerificationRecord(dataDirectory, id);
    if (record === null) return true;
    const ageMs = Date.now() - Date.parse(record.at);
    // Negative after the clock went back.
    return ageMs >= everyMs || ageMs < 0;
  };
  while (!signal.aborted) {
    for (const organization of options.organizations()) {
      if (signal.aborted || !isDue(organization)) continue;
      organization.work.verificationAt = performance.now();
      await verifyOne(options, organization.id);
    }
    await sleep(pauseMs, undefined, { signal }).catch(() => {});
  }
}

async function verifyOne(options: ContinuousVerification, organizationId: bigint): Promise<void> {
  const { dataDirectory, signal, metrics } = options;
  const log = options.log.child({ organization: encodeId('organization', organizationId) });
  const verify = () => verifyOrganization({ ...options, organizationId, pauseFactor });
  try {
    const found = await verify();
    if (found.state === 'not published') return;
    logResult(log, found);
    const repaired = await repair(found, () => options.rebuild(organizationId, true), verify);
    signal.throwIfAborted();
    if (repaired !== null) {
      const { outcome, failure } = repaired;
      const { state } = outcome;
      if (failure === null) log.warn({ state }, 'repaired the differences from Postgres');
      else log.error({ state, failure }, 'cannot repair the differences from Postgres');
    }
    metrics.verified(found, repaired);
    await writeVerificationRecord(dataDirectory, organizationId, found, repaired);
  } catch (error) {
    if (signal.aborted) return;
    metrics.failed('verification');
    log.warn({ err: error }, 'verification failed');
  }
}

function logResult(log: Logger, verification: Verification): void {
  const { state, reason, purchases, differing } = verification;
  if (state === 'equal') log.info({ purchases }, 'verified: equal to Postgres');
  else if (state === 'not comparable') log.info({ reason }, 'cannot verify now');
  else {
    const examples = verification.examples.map((id) => encodeId('purchase', id));
    log.error({ reason, differing, examples }, 'the published generation differs from Postgres');
  }
}
