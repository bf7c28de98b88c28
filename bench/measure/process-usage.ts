import { readdirSync, readFileSync } from 'node:fs';
import type { Scope } from '../runner/scope.ts';

/** What the system says that a running process has used; Linux only. */
export type ProcessUsage = {
  readonly residentBytes: number;
  /** The part that no file backs: what the process itself holds. */
  readonly anonymousBytes: number;
  readonly peakResidentBytes: number;
  readonly cpuSeconds: number;
  /** Of its children that have ended. */
  readonly childrenCpuSeconds: number;
  /** To files, also where the system has not written them to the disk yet. */
  readonly writtenBytes: number;
};

// What /proc counts processor time in; the same on every Linux that Node runs on.
const ticksPerSecond = 100;

/** Null where the process has ended, and where there is no /proc to look it up in. */
export function readUsage(pid: number): ProcessUsage | null {
  const read = (name: string) => readFileSync(`/proc/${pid}/${name}`, 'utf8');
  try {
    const status = read('status');
    const kibibytes = (name: string) =>
      1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]);
    // The program's name stands in parentheses and may itself hold spaces.
    const fields = read('stat')
      .replace(/^.*\) /s, '')
      .split(' ');
    const usage = {
      residentBytes: kibibytes('VmRSS'),
      anonymousBytes: kibibytes('RssAnon'),
      peakResidentBytes: kibibytes('VmHWM'),
      cpuSeconds: (Number(fields[11]) + Number(fields[12])) / ticksPerSecond,
      childrenCpuSeconds: (Number(fields[13]) + Number(fields[14])) / ticksPerSecond,
      writtenBytes: Number(/^write_bytes: (\d+)/m.exec(read('io'))?.[1]),
    };
    // A process that has ended and was not waited for yet has no memory.
    return Number.isNaN(usage.residentBytes) ? null : usage;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ESRCH' || code === 'EACCES') return null;
    throw error;
  }
}

/** What a process and its children hold, counting what they share more than once. */
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
    // Ended meanwhile.
  }
  return bytes;
}

const samplingIntervalMs = 20;

/** Samples a process as long as the scope lives; `last` is what it had used shortly before its end. */
export function watchUsage(scope: Scope, pid: number): { last(): ProcessUsage | null } {
  let last = readUsage(pid);
  const sampling = setInterval(() => {
    last = readUsage(pid) ?? last;
  }, samplingIntervalMs);
  scope.afterwards(async () => clearInterval(sampling));
  return { last: () => last };
}
