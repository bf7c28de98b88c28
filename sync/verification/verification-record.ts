import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { readJsonFile } from '../../src/process/json-file.ts';
import { replaceFile } from '../../src/process/replace-file.ts';
import { organizationDirectory } from '../../src/purchase-store/format/current.ts';
import { type Repair, type Verification, verificationStates } from './verify.ts';

/** The result of an organization's last verification, in a file beside its generations. */
const verificationRecord = z.object({
  at: z.iso.datetime(),
  /** After the repair, if there was one. */
  state: z.enum(verificationStates),
  purchases: z.number(),
  /** Purchases that differed before the repair. */
  differences: z.number(),
});
export type VerificationRecord = z.output<typeof verificationRecord>;

const recordFile = (dataDirectory: string, organizationId: bigint): string =>
  join(organizationDirectory(dataDirectory, organizationId), 'VERIFIED');

export const readVerificationRecord = (
  dataDirectory: string,
  organizationId: bigint,
): VerificationRecord | null =>
  readJsonFile(recordFile(dataDirectory, organizationId), verificationRecord);

export async function writeVerificationRecord(
  dataDirectory: string,
  organizationId: bigint,
  found: Verification,
  repair: Repair | null,
): Promise<void> {
  const last = repair?.outcome ?? found;
  const record: VerificationRecord = {
    at: new Date().toISOString(),
    state: last.state,
    purchases: last.purchases,
    differences: found.differing,
  };
  const path = recordFile(dataDirectory, organizationId);
  // A user who may not write to the folder may verify.
  await replaceFile(path, `${JSON.stringify(record)}\n`).catch(() => {});
}

/** Removes the record of a difference: what differed has been replaced. The next verification writes a new one. */
export async function removeFoundDifference(
  dataDirectory: string,
  organizationId: bigint,
): Promise<void> {
  const state = readVerificationRecord(dataDirectory, organizationId)?.state;
  if (state !== 'differs' && state !== 'unreadable') return;
  await rm(recordFile(dataDirectory, organizationId), { force: true }).catch(() => {});
}
