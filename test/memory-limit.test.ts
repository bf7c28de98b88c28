import pino from 'pino';
import { describe, expect, it } from 'vitest';
import { warnOfLittleMemory } from '../src/process/memory-limit.ts';
import { apiMemory, workerMemory } from '../src/settings/memory-needs.ts';
import { readSettings } from '../src/settings/settings.ts';

function warningsOf(neededBytes: number, limitBytes: number | undefined): string[] {
  const lines: string[] = [];
  warnOfLittleMemory(
    pino({ level: 'warn' }, { write: (line) => void lines.push(line) }),
    neededBytes,
    limitBytes,
  );
  return lines.map((line) => JSON.parse(line).msg);
}

describe('the memory limit of a container', () => {
  it('causes one warning if it is less than the settings need', () => {
    expect(warningsOf(2 ** 30, 2 ** 29)).toEqual([
      'The memory limit is 512 MiB, and the settings need 1024 MiB. ' +
        'Raise the limit, or lower DUCKDB_MEMORY_LIMIT.',
    ]);
  });

  it.for([
    ['is enough', 2 ** 30],
    ['is unknown', undefined],
    ['does not exist', 0],
    ['is that of no machine', 2 ** 64],
  ] as const)('causes no warning if it %s', ([, limit]) => {
    expect(warningsOf(2 ** 30, limit)).toEqual([]);
  });

  it('is 3.3 GB for the API and 1.3 GB for the worker by default, as docs/operations.md states', () => {
    const settings = readSettings({});
    const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(1);
    expect(gigabytes(apiMemory(settings))).toBe('3.3');
    expect(gigabytes(workerMemory(settings))).toBe('1.3');
  });
});
