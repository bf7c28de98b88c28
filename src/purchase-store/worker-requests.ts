import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { decodeId, encodeId } from '../domain/public-id.ts';
import { draftSuffix, replaceFileSync } from '../replace-file.ts';
import { namesIn, purchasesDirectory } from './published-generation.ts';

/**
 * How the API asks the worker for something: a small file in the data folder, which both
 * of them have; the API may write nothing in Postgres. The worker sends no response, and
 * decides when it acts.
 */
export type WorkerRequest =
  /** Publish the organization's changes before its turn. */
  | 'refresh'
  /** A published file cannot be read; the request holds its name, if that is known. */
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

/** The content of each request, by organization. A request is taken once. */
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
    // Before anything is looked at: a later request is taken the next time.
    rmSync(path, { force: true });
    taken.set(id, content);
  }
  return taken;
}
