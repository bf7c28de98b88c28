import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { decodeId, encodeId } from '../domain/public-id.ts';
import { draftSuffix, replaceFileSync } from '../replace-file.ts';
import { namesIn, purchasesDirectory } from './published-generation.ts';

/**
 * The API requests work of the sync worker by small files in the data folder, because the API may
 * not write to Postgres. The worker sends no response.
 */
type WorkerRequest =
  /** Publish the organization's changes early. */
  | 'refresh'
  /** Rebuild an unreadable generation. The request contains the name of its base, if that is known. */
  | 'damaged';

const directoryOf = (dataDirectory: string, kind: WorkerRequest): string =>
  join(purchasesDirectory(dataDirectory), kind);

export function sendWorkerRequest(
  dataDirectory: string,
  kind: WorkerRequest,
  organizationId: bigint,
  content = '',
): void {
  const directory = directoryOf(dataDirectory, kind);
  mkdirSync(directory, { recursive: true });
  const path = join(directory, encodeId('organization', organizationId));
  replaceFileSync(path, content, `${path}.${process.pid}${draftSuffix}`);
}

/** Removes the requests, and returns their contents by organization. */
export function takeWorkerRequests(
  dataDirectory: string,
  kind: WorkerRequest,
  isMine: (organizationId: bigint) => boolean,
): Map<bigint, string> {
  const directory = directoryOf(dataDirectory, kind);
  const taken = new Map<bigint, string>();
  for (const name of namesIn(directory)) {
    const id = decodeId('organization', name);
    if (id === null || !isMine(id)) continue;
    const path = join(directory, name);
    const content = readFileSync(path, 'utf8');
    // Before the work begins, so that the next call returns a later request.
    rmSync(path, { force: true });
    taken.set(id, content);
  }
  return taken;
}
