import { type ChildProcess, fork } from 'node:child_process';
import { closeSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { Socket } from 'node:net';
import { getPriority, setPriority } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { PurchaseFilters } from '../domain/purchase-query.ts';
import type { ExportFormatName } from '../http/formats/negotiation.ts';
import { builtProgram } from '../package-files.ts';
import { childEnvironment } from '../settings.ts';
import type { ExportFailure, ExportJob } from './job.ts';
import { openPipe, type Pipe } from './pipe.ts';

const program = builtProgram('src/exports/export-worker.ts');

/** Exports take what questions leave of the processors. */
const niceness = 10;

export type ExportProcessOptions = {
  readonly threads: number;
  /** Of each process; as DuckDB writes sizes. */
  readonly memoryLimit: string;
  readonly dataDirectory: string;
};

/** What a process of its own writes. Its memory, and its work, end with it. */
export type ExportProcesses = {
  /** The purchases of an open file of the DuckDB layout. */
  writeFile(
    descriptor: number,
    filters: PurchaseFilters,
    format: ExportFormatName,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array, void>;
  /** The CSV of an export as Parquet. */
  writeParquet(
    csv: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array, void>;
};

export function createExportProcesses(options: ExportProcessOptions): ExportProcesses {
  const { threads, memoryLimit, dataDirectory } = options;
  let started = 0;
  const limits = () => {
    started += 1;
    const folder = `export-${process.pid}-${started}`;
    return { threads, memoryLimit, spillDirectory: join(dataDirectory, 'spill', folder) };
  };
  return {
    writeFile: (descriptor, filters, format, signal) =>
      writtenBy({ ...limits(), format, source: { filters } }, { descriptor }, signal),
    writeParquet: (csv, signal) =>
      writtenBy({ ...limits(), format: 'parquet', source: 'csv' }, { csv }, signal),
  };
}

type Input = { readonly descriptor: number } | { readonly csv: AsyncIterable<Uint8Array> };

/** Throws what the process says where it fails; the process ends with the generator. */
async function* writtenBy(
  order: ExportJob,
  input: Input,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void> {
  signal.throwIfAborted();
  const output = await openPipe();
  const child = start(input, output);
  const ended = outcomeOf(child);
  const bytes = new Socket({ fd: output.readable, readable: true, writable: false });
  const fed =
    'csv' in input && child.stdin !== null
      ? pipeline(Readable.from(input.csv), child.stdin)
      : Promise.resolve();
  // Awaited below, once there is nothing more to read.
  fed.catch(() => {});
  const end = () => {
    child.kill('SIGKILL');
    bytes.destroy();
  };
  signal.addEventListener('abort', end, { once: true });
  try {
    // Opening the pipe took a while, in which nobody listened.
    signal.throwIfAborted();
    // Whatever has a lower priority already may not raise it.
    if (child.pid !== undefined) setPriority(child.pid, Math.max(niceness, getPriority()));
    // Where it cannot be sent, the process ends without a word.
    child.send(order, () => {});
    yield* bytes;
    signal.throwIfAborted();
    await fed;
    const failure = await ended;
    if (failure !== null) throw new Error(`the export process failed: ${failure}`);
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    signal.removeEventListener('abort', end);
    end();
    // `fed` is not awaited: since Node 22 a pipeline settles only after its source has ended.
    await ended;
    await rm(order.spillDirectory, { recursive: true, force: true });
  }
}

/** Starts a process, and closes its end of the pipe here; both where there can be no process. */
function start(input: Input, { readable, writable }: Pipe): ChildProcess {
  try {
    return fork(program, [], {
      env: childEnvironment(undefined),
      serialization: 'advanced',
      stdio: [
        'csv' in input ? 'pipe' : 'ignore',
        writable,
        'inherit',
        'descriptor' in input ? input.descriptor : 'ignore',
        'ipc',
      ],
    });
  } catch (error) {
    closeSync(readable);
    throw error;
  } finally {
    closeSync(writable);
  }
}

/** Null where the process ended well; otherwise what it says of its failure. */
function outcomeOf(child: ChildProcess): Promise<string | null> {
  return new Promise((resolve) => {
    let told: string | undefined;
    child.once('message', ({ failure }: ExportFailure) => {
      told = failure;
    });
    child.once('error', ({ message }) => resolve(message));
    child.once('exit', (code, signal) => {
      const settle = () => resolve(code === 0 ? null : (told ?? `it ended with ${signal ?? code}`));
      // What it said may still be on its way.
      if (child.connected) child.once('disconnect', settle);
      else settle();
    });
  });
}
