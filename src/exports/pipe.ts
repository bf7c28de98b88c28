import { execFile } from 'node:child_process';
import { closeSync, constants, createWriteStream, openSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';

const makePipe = (path: string) => promisify(execFile)('mkfifo', ['-m', '600', path]);

/** Both ends of a pipe, as descriptors. Whoever has them closes them. */
export type Pipe = { readonly readable: number; readonly writable: number };

/**
 * A pipe of the operating system. Between a process and its child Node makes sockets,
 * and those cannot be opened as /dev/stdin and /dev/stdout, which is what DuckDB does.
 */
export async function openPipe(): Promise<Pipe> {
  const folder = await mkdtemp(join(tmpdir(), 'crm-data-service-pipe-'));
  try {
    const path = join(folder, 'pipe');
    await makePipe(path);
    // Without O_NONBLOCK it would wait for somebody to write.
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

/**
 * Lets `read` read the standard input under a path, which is in `folder` meanwhile. What
 * /dev/stdin is could not be opened once its writer has gone, and is none of DuckDB's pipes.
 */
export async function withStandardInput(
  folder: string,
  read: (path: string) => Promise<void>,
): Promise<void> {
  await mkdir(folder, { recursive: true });
  const path = join(folder, 'input');
  await makePipe(path);
  // Either open waits for the other one.
  await Promise.all([read(path), pipeline(process.stdin, createWriteStream(path))]);
}
