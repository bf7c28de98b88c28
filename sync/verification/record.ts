import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { organizationDirectory } from '../../src/purchase-store/published-generation.ts';
import { replaceFile } from '../../src/replace-file.ts';
import type { Repair } from './repair.ts';
import { type Verification, verificationStates } from './verify.ts';

/** What the last verification of an organization came to, in a small file beside its generations. */
const verificationRecord = z.object({
  at: z.iso.datetime(),
  /** After the repair, where there was one. */
  state: z.enum(verificationStates),
  purchases: z.number(),
  /** Before the repair. */
  differences: z.number(),
  repairedBy: z.array(z.enum(['reread', 'rebuild'])),
});
export type VerificationRecord = z.output<typeof verificationRecord>;

const recordFile = (dataDirectory: string, organizationId: bigint): string =>
  join(organizationDirectory(dataDirectory, organizationId), 'VERIFIED');

/** Null where nobody has verified it yet, or what was written cannot be read. */
export function readVerificationRecord(
  dataDirectory: string,
  organizationId: bigint,
): VerificationRecord | null {
  try {
    const text = readFileSync(recordFile(dataDirectory, organizationId), 'utf8');
    return verificationRecord.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

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
    differences: found.differences.length + found.dictionaries.length,
    repairedBy: [...(repair?.repairs ?? [])],
  };
  const path = recordFile(dataDirectory, organizationId);
  // Whoever may only read the folder may verify all the same.
  await replaceFile(path, `${JSON.stringify(record)}\n`).catch(() => {});
}
