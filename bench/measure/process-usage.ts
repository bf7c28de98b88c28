import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Scope } from '../runner/scope.ts';

/** The resources that a running process has used, from /proc (Linux only). */
export type ProcessUsage = {
  readonly residentBytes: number;
  readonly peakResidentBytes: number;
  readonly cpuSeconds: number;
  /** Written to files, even if they are not on the disk yet. */
  readonly writtenBytes: number;
};

/** The unit of processor time in /proc, on every Linux that Node supports. */
const ticksPerSecond = 100;

/** The cores that a process uses in the next `seconds`. */
export async function coresOf({ signal }: Scope, pid: number, seconds: number): Promise<number> {
  const used = () => readUsage(pid)?.cpuSeconds ?? Number.NaN;
  const [before, startedAt] = [used(), performance.now()];
  await sleep(seconds * 1000, undefined, { signal });
  return ((used() - before) * 1000) / (performance.now() - startedAt);
}

/** Null if the process has ended, and without /proc. */
export function readUsage(pid: number): ProcessUsage | null {
  const read = (name: string) => readFileSync(`/proc/${pid}/${name}`, 'utf8');
  try {
    const status = read('status');
    const kibibytes = (name: string) =>
      1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]);
    const fields = fieldsOf(pid);
    const usage = {
      residentBytes: kibibytes('VmRSS'),
      peakResidentBytes: kibibytes('VmHWM'),
      cpuSeconds: (Number(fields[11]) + Number(fields[12])) / ticksPerSecond,
      writtenBytes: Number(/^write_bytes: (\d+)/m.exec(read('io'))?.[1]),
    };
    // A zombie has no memory.
    return Number.isNaN(usage.residentBytes) ? null : usage;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ESRCH' || code === 'EACCES') return null;
    throw error;
  }
}

/** The resident memory of a process and its children. Shared memory counts more than once. */
export const residentBytesOfFamily = (pid: number): number =>
  childrenOf(pid).reduce(
    (bytes, child) => bytes + (readUsage(child)?.residentBytes ?? 0),
    readUsage(pid)?.residentBytes ?? Number.NaN,
  );

/** The processor time of a process and its children, those that have ended included. */
export function cpuSecondsOfFamily(pid: number): number {
  const [ofUser, ofSystem] = fieldsOf(pid).slice(13, 15).map(Number) as [number, number];
  return childrenOf(pid).reduce(
    (seconds, child) => seconds + (readUsage(child)?.cpuSeconds ?? 0),
    (readUsage(pid)?.cpuSeconds ?? Number.NaN) + (ofUser + ofSystem) / ticksPerSecond,
  );
}

export const parentOf = (pid: number): number => Number(fieldsOf(pid)[1]);

/** The fields of /proc/PID/stat after the program's name, which is in parentheses and may contain spaces. */
const fieldsOf = (pid: number): string[] =>
  readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');

function childrenOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8')
        .split(' ')
        .filter((child) => child !== '')
        .map(Number),
    );
  } catch {
    // A thread has ended meanwhile.
    return [];
  }
}

/** The result of the work, and the maximal memory of a process and its children meanwhile. */
export async function withPeakOfFamily<Result>(pid: number, work: () => Promise<Result>) {
  let maxBytes = residentBytesOfFamily(pid);
  const sampling = setInterval(() => {
    maxBytes = Math.max(maxBytes, residentBytesOfFamily(pid));
  }, 100);
  const result = await work().finally(() => clearInterval(sampling));
  return { result, maxBytes };
}

/** Samples a process until the scope ends. Returns its peak of resident memory, also after its end. */
export function watchPeak(scope: Scope, pid: number): () => number {
  let peak = Number.NaN;
  const sampling = setInterval(() => {
    peak = readUsage(pid)?.peakResidentBytes ?? peak;
  }, 20);
  scope.afterwards(async () => clearInterval(sampling));
  return () => peak;
}
