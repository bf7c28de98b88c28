import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { decodeId, encodeId } from '../../domain/public-id.ts';
import { namesIn, purchasesDirectory } from './published-generation.ts';

/**
 * How the API asks the worker to bring an organization up to date before its turn: an
 * empty file in the data folder, which both of them have; it may write nothing in
 * Postgres. It is a wish, not a task: nobody answers, and the worker decides how often
 * it grants one.
 */
const hurryDirectory = (dataDirectory: string): string =>
  join(purchasesDirectory(dataDirectory), 'hurry');

export function askToHurry(dataDirectory: string, organizationId: bigint): void {
  const directory = hurryDirectory(dataDirectory);
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, encodeId('organization', organizationId)), '');
}

/** The organizations for which somebody waits; a wish is taken once. */
export function takeWishesToHurry(
  dataDirectory: string,
  isMine: (organizationId: bigint) => boolean,
): bigint[] {
  const directory = hurryDirectory(dataDirectory);
  const taken: bigint[] = [];
  for (const name of namesIn(directory)) {
    const id = decodeId('organization', name);
    if (id === null || !isMine(id)) continue;
    // Before anything is looked at: whoever asks from now on is heard the next time.
    rmSync(join(directory, name), { force: true });
    taken.push(id);
  }
  return taken;
}
