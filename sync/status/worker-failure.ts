import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { z } from 'zod';
import { purchasesDirectory } from '../../src/purchase-store/published-generation.ts';
import { replaceFileSync } from '../../src/replace-file.ts';
import { describeFailure } from '../failure.ts';
import { type Shard, shardName } from '../shard.ts';

/** What the whole worker fails at, rather than one organization: a small file for each shard, read by `status`. */
const workerFailure = z.object({
  message: z.string(),
  advice: z.string(),
  since: z.iso.datetime(),
});
export type WorkerFailure = z.output<typeof workerFailure>;

const failureFile = (dataDirectory: string, shard: Shard): string =>
  join(purchasesDirectory(dataDirectory), 'worker-failures', `${shardName(shard)}.json`);

/** Null where the worker reports no failure, or the file cannot be read. */
export function readWorkerFailure(dataDirectory: string, shard: Shard): WorkerFailure | null {
  try {
    return workerFailure.parse(JSON.parse(readFileSync(failureFile(dataDirectory, shard), 'utf8')));
  } catch {
    return null;
  }
}

export type WorkerFailures = {
  /** Reports that an activity failed, or with null that it succeeded. */
  note(activity: string, error: unknown): void;
};

/** Logs each new failure, and keeps the oldest that lasts in the file. */
export function createWorkerFailures(
  dataDirectory: string,
  shard: Shard,
  log: Logger,
): WorkerFailures {
  const path = failureFile(dataDirectory, shard);
  const failures = new Map<string, WorkerFailure>();
  /** Undefined until this worker has written or removed the file. */
  let written: WorkerFailure | null | undefined;

  const write = () => {
    const [oldest = null] = failures.values();
    if (oldest === written) return;
    try {
      if (oldest === null) rmSync(path, { force: true });
      else writeFailure(path, oldest);
      written = oldest;
    } catch (error) {
      // `status` then finds that the worker's looks are not recorded any more.
      log.debug({ err: error }, 'cannot write the failure of the worker');
    }
  };

  return {
    note(activity, error) {
      const before = failures.get(activity);
      if (error === null) {
        if (before !== undefined) log.info({ activity }, 'works again');
        failures.delete(activity);
      } else {
        const { message, advice } = describeFailure(error);
        if (before?.message !== message) {
          log.error({ activity, advice }, message);
          const since = before?.since ?? new Date().toISOString();
          failures.set(activity, { message, advice, since });
        }
      }
      write();
    },
  };
}

function writeFailure(path: string, failure: WorkerFailure): void {
  mkdirSync(join(path, '..'), { recursive: true });
  replaceFileSync(path, `${JSON.stringify(failure)}\n`);
}
