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
    // The program's name is in parentheses and may contain spaces.
    const fields = read('stat')
      .replace(/^.*\) /s, '')
      .split(' ');
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
export function residentBytesOfFamily(pid: number): number {
  let bytes = readUsage(pid)?.residentBytes ?? Number.NaN;
  try {
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      const children = readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8');
      for (const child of children.split(' ')) {
        if (child !== '') bytes += readUsage(Number(child))?.residentBytes ?? 0;
      }
    }
  } catch {
    // A thread has ended meanwhile.
  }
  return bytes;
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
