import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { withFileAdvice } from '../../src/process/file-advice.ts';
import { jsonOf, readJsonFile } from '../../src/process/json-file.ts';
import { OperatorError } from '../../src/process/operator-error.ts';
import { draftSuffix, replaceFile } from '../../src/process/replace-file.ts';
import { purchasesDirectory } from '../../src/purchase-store/format/current.ts';
import { isOfShard, type Shard } from '../../src/purchase-store/ticks/shard.ts';

/** A command asks the worker for a rebuild: a file in the data folder. The response is another file. */
const request = z.object({
  organizationId: z
    .string()
    .regex(/^-?\d+$/)
    .transform(BigInt),
  /** What is published differs from Postgres. */
  differsFromPostgres: z.boolean().default(false),
});
type RebuildRequest = z.output<typeof request>;

const response = z.object({ failure: z.string().nullable() });

const requestsDirectory = (dataDirectory: string): string =>
  join(purchasesDirectory(dataDirectory), 'requests');
const requestSuffix = '.request.json';
const responseSuffix = '.response.json';
/** Older files belong to a process that has ended. */
const maxAgeMs = { [responseSuffix]: 3_600_000, [draftSuffix]: 10_000 };

const workerCheckMs = 1_000;

/** The failure is null if the worker has rebuilt the organization. */
type RebuildResponse = { readonly failure: string | null };

/** Sends a request and waits for the response; null if `isWorkerRunning` returns false. */
export async function requestFromWorker(
  dataDirectory: string,
  content: RebuildRequest,
  isWorkerRunning: () => Promise<boolean>,
  signal: AbortSignal,
): Promise<RebuildResponse | null> {
  const directory = requestsDirectory(dataDirectory);
  const path = join(directory, randomUUID());
  try {
    await mkdir(directory, { recursive: true });
    await replaceFile(path + requestSuffix, jsonOf(content));
  } catch (error) {
    const problem = withFileAdvice(error as Error);
    throw new OperatorError(`Cannot write a request for the worker to ${directory}: ${problem}`);
  }
  let checkedAt = performance.now();
  for (;;) {
    const text = await readFile(path + responseSuffix, 'utf8').catch(() => null);
    if (text !== null) {
      await rm(path + responseSuffix, { force: true });
      return response.parse(JSON.parse(text));
    }
    if (performance.now() - checkedAt > workerCheckMs) {
      checkedAt = performance.now();
      if (!(await isWorkerRunning())) {
        await rm(path + requestSuffix, { force: true });
        return null;
      }
    }
    await sleep(100, undefined, { signal });
  }
}

/** By path: null while the request runs, then the response until it is written. */
export type TakenRequests = Map<string, RebuildResponse | null>;

/**
 * Returns the requests that are not in `taken`, and adds them. The file of a request stays until
 * the response is written: if the worker ends before, the next worker takes the request.
 */
export async function takeRequests(
  dataDirectory: string,
  shard: Shard,
  taken: TakenRequests,
): Promise<{ readonly request: RebuildRequest; respond(failure: string | null): Promise<void> }[]> {
  const directory = requestsDirectory(dataDirectory);
  const names = await readdir(directory).catch(() => []);
  const requests = [];
  for (const name of names) {
    const path = join(directory, name);
    await removeOld(path);
    if (!name.endsWith(requestSuffix)) continue;
    const respond = async (failure: string | null) => {
      // If the response cannot be written, the next call writes it, and does not run the request.
      taken.set(path, { failure });
      const responsePath = path.slice(0, -requestSuffix.length) + responseSuffix;
      await replaceFile(responsePath, JSON.stringify({ failure }));
      await rm(path, { force: true });
      taken.delete(path);
    };
    if (taken.has(path)) {
      const unwritten = taken.get(path) ?? null;
      if (unwritten !== null) await respond(unwritten.failure).catch(() => {});
      continue;
    }
    const parsed = readJsonFile(path, request);
    // A command that gives up removes its request. Nothing would read the response.
    if (parsed === null && !existsSync(path)) continue;
    if (parsed !== null && !isOfShard(parsed.organizationId, shard)) continue;
    taken.set(path, null);
    if (parsed === null) await respond('the request cannot be read');
    else requests.push({ request: parsed, respond });
  }
  return requests;
}

async function removeOld(path: string): Promise<void> {
  const [, maxAge] = Object.entries(maxAgeMs).find(([suffix]) => path.endsWith(suffix)) ?? [];
  if (maxAge === undefined) return;
  const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Date.now() }));
  if (Date.now() - mtimeMs > maxAge) await rm(path, { force: true });
}
