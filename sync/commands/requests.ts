import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { purchasesDirectory } from '../../src/purchase-store/published-generation.ts';
import { draftSuffix, replaceFile } from '../../src/replace-file.ts';
import { isOfShard, type Shard } from '../shard.ts';
import type { PurchaseRange } from '../verification/purchase-range.ts';

/**
 * How a command asks the worker that has the data folder for something only the
 * worker may do: a file in the folder, answered by another one.
 */
const integer = z
  .string()
  .regex(/^-?\d+$/)
  .transform(BigInt);
const range = z.object({
  createdSince: integer,
  createdUntil: integer,
  idFrom: integer,
  idUntil: integer,
} satisfies Record<keyof PurchaseRange, unknown>);
const request = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('rebuild'), organizationId: integer }),
  z.object({ kind: z.literal('reread'), organizationId: integer, ranges: z.array(range) }),
]);
export type Request = z.output<typeof request>;

const answer = z.object({ failure: z.string().nullable() });

const requestsDirectory = (dataDirectory: string): string =>
  join(purchasesDirectory(dataDirectory), 'requests');
const asked = '.request.json';
const answered = '.answer.json';
/** What nobody will take any more: whoever asked, or wrote, is gone. */
const keptMs = { [answered]: 3_600_000, [draftSuffix]: 10_000 };

const lookForWorkerMs = 1_000;

/**
 * Asks, and waits for the answer: what went wrong, or null where it was done. Gives up
 * once `isThere` says that there is no worker that could answer.
 */
export async function askWorker(
  dataDirectory: string,
  asking: Request,
  isThere: () => Promise<boolean>,
  signal: AbortSignal,
): Promise<{ readonly failure: string | null } | 'nobody is there'> {
  const directory = requestsDirectory(dataDirectory);
  await mkdir(directory, { recursive: true });
  const path = join(directory, randomUUID());
  const content = JSON.stringify(asking, (_name, value) =>
    typeof value === 'bigint' ? String(value) : value,
  );
  await replaceFile(path + asked, content);
  let lookedAt = performance.now();
  for (;;) {
    const text = await readFile(path + answered, 'utf8').catch(() => null);
    if (text !== null) {
      await rm(path + answered, { force: true });
      return answer.parse(JSON.parse(text));
    }
    if (performance.now() - lookedAt > lookForWorkerMs) {
      lookedAt = performance.now();
      if (!(await isThere())) {
        await rm(path + asked, { force: true });
        return 'nobody is there';
      }
    }
    await sleep(100, undefined, { signal });
  }
}

/** By path: null while a request is done, afterwards what it came to, where that is still to be told. */
export type TakenRequests = Map<string, { readonly failure: string | null } | null>;

/**
 * What was asked and is not in `taken` yet, where it is noted. A request stays
 * until it is answered: where the worker ends before, the next one takes it up.
 */
export async function takeRequests(
  dataDirectory: string,
  shard: Shard,
  taken: TakenRequests,
): Promise<{ readonly request: Request; answer(failure: string | null): Promise<void> }[]> {
  const directory = requestsDirectory(dataDirectory);
  const names = await readdir(directory).catch(() => []);
  const requests = [];
  for (const name of names) {
    const path = join(directory, name);
    await removeForgotten(path);
    if (!name.endsWith(asked)) continue;
    const tell = async (failure: string | null) => {
      // What could not be told is not done again for that.
      taken.set(path, { failure });
      await replaceFile(path.slice(0, -asked.length) + answered, JSON.stringify({ failure }));
      await rm(path, { force: true });
      taken.delete(path);
    };
    if (taken.has(path)) {
      const outcome = taken.get(path) ?? null;
      if (outcome !== null) await tell(outcome.failure).catch(() => {});
      continue;
    }
    const text = await readFile(path, 'utf8').catch(() => '');
    const parsed = parseRequest(text);
    if (parsed !== null && !isOfShard(parsed.organizationId, shard)) continue;
    taken.set(path, null);
    if (parsed === null) await tell('the request cannot be read');
    else requests.push({ request: parsed, answer: tell });
  }
  return requests;
}

function parseRequest(text: string): Request | null {
  try {
    return request.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

async function removeForgotten(path: string): Promise<void> {
  const [, kept] = Object.entries(keptMs).find(([suffix]) => path.endsWith(suffix)) ?? [];
  if (kept === undefined) return;
  const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Date.now() }));
  if (Date.now() - mtimeMs > kept) await rm(path, { force: true });
}
