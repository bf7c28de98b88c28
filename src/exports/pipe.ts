import { execFile } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

export const makePipe = (path: string) => promisify(execFile)('mkfifo', ['-m', '600', path]);

/**
 * Both ends of a pipe of the operating system, as descriptors that the caller closes. Node
 * connects processes by sockets, and DuckDB cannot open a socket as /dev/stdout.
 */
export async function openPipe(): Promise<{
  readonly readable: number;
  readonly writable: number;
}> {
  const folder = await mkdtemp(join(tmpdir(), 'crm-data-service-pipe-'));
  try {
    const path = join(folder, 'pipe');
    await makePipe(path);
    // Without O_NONBLOCK it would wait for the writer.
    const readable = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      return { readable, writable: openSync(path, constants.O_WRONLY) };
    } catch (error) {
      closeSync(readable);
      throw error;
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
