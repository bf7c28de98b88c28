import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { z } from 'zod';
import { readJsonFile } from '../../src/json-file.ts';
import { purchasesDirectory } from '../../src/purchase-store/published-generation.ts';
import { replaceFileSync } from '../../src/replace-file.ts';
import { describeFailure } from '../failure.ts';
import type { Stage } from '../metrics/observer.ts';
import { type Shard, shardName } from '../shard.ts';

/** A failure of the whole worker, in a file for each shard that `status` reads. */
const workerFailure = z.object({
  message: z.string(),
  advice: z.string(),
  since: z.iso.datetime(),
});
export type WorkerFailure = z.output<typeof workerFailure>;

const failureFile = (dataDirectory: string, shard: Shard): string =>
  join(purchasesDirectory(dataDirectory), 'worker-failures', `${shardName(shard)}.json`);

/** Null if the worker reports no failure, or the file cannot be read. */
export const readWorkerFailure = (dataDirectory: string, shard: Shard): WorkerFailure | null =>
  readJsonFile(failureFile(dataDirectory, shard), workerFailure);

export type WorkerFailures = {
  /** Records the failure of an activity, or its success with null. */
  note(activity: string, error: unknown): void;
};

/** Logs each new failure, and writes the oldest current one to the file. */
export function createWorkerFailures(
  dataDirectory: string,
  shard: Shard,
  log: Logger,
  onFailure: (stage: Stage) => void,
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
      // `status` reports a worker that records no polls.
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
        onFailure(stageOf(activity));
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

/** Activities that write files may name an organization. */
const stageOf = (activity: string): Stage => {
  if (activity === 'polling') return 'poll';
  return activity === 'pruning' ? 'pruning' : 'record';
};

function writeFailure(path: string, failure: WorkerFailure): void {
  mkdirSync(join(path, '..'), { recursive: true });
  replaceFileSync(path, `${JSON.stringify(failure)}\n`);
}
