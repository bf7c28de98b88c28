import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { readJsonFile } from '../process/json-file.ts';
import { OperatorError } from '../process/operator-error.ts';
import { writePrivateFile } from '../process/private-files.ts';

/** Which `npm start` runs for the data folder. `url` is null before its API listens. */
const runningStart = z.object({ pid: z.number(), url: z.string().nullable() });

const fileOf = (dataDirectory: string): string => join(dataDirectory, 'start.json');

export function writeRunningStart(dataDirectory: string, url: string | null): void {
  writePrivateFile(fileOf(dataDirectory), `${JSON.stringify({ pid: process.pid, url })}\n`);
}

export function removeRunningStart(dataDirectory: string): void {
  rmSync(fileOf(dataDirectory), { force: true });
}

/** Says that the port or the cluster of the data folder is in use by another `npm start`, if one runs. */
export function explainByRunningStart(dataDirectory: string, error: unknown): unknown {
  const running = readJsonFile(fileOf(dataDirectory), runningStart);
  if (!(error instanceof OperatorError) || running === null || !isRunning(running.pid))
    return error;
  const { pid, url } = running;
  return new OperatorError(
    `crm-data-service start already runs for DATA_DIR ${dataDirectory} (process ${pid}): ` +
      `${url === null ? 'it is starting' : `the API is at ${url}`}. ` +
      'Stop it first, or set another DATA_DIR and PORT.',
  );
}

function isRunning(pid: number): boolean {
  // In a container, a process may have the id of its predecessor.
  if (pid === process.pid) return false;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
