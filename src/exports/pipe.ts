import { execFile } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { promisify } from 'node:util';

export const makePipe = (path: string) => promisify(execFile)('mkfifo', ['-m', '600', path]);

/**
 * Both ends of a pipe of the operating system, as descriptors that the caller closes. Node
 * connects processes by sockets, and DuckDB cannot open a socket as /dev/stdout. Nothing else uses `path`.
 */
export async function openPipe(
  path: string,
): Promise<{ readonly readable: number; readonly writable: number }> {
  await makePipe(path);
  try {
    // Without O_NONBLOCK it would wait for the writer.
    const readable = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      return { readable, writable: openSync(path, constants.O_WRONLY) };
    } catch (error) {
      closeSync(readable);
      throw error;
    }
  } finally {
    await rm(path, { force: true });
  }
}
