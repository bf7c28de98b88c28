import { type ChildProcess, fork, type StdioOptions } from 'node:child_process';
import { closeSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { Socket } from 'node:net';
import { getPriority, setPriority } from 'node:os';
import { dirname } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { StoreFiles } from '../domain/purchase-engine.ts';
import { defaultShortcuts, type Shortcuts } from '../duckdb/shortcuts.ts';
import { spillDirectory } from '../duckdb/spill.ts';
import { type Format, writeBatches } from '../http/formats/format.ts';
import { formats, formatWith } from '../http/formats/negotiation.ts';
import type { ExportWriters } from '../http/resource-services.ts';
import { builtProgram } from '../process/package-files.ts';
import { purchaseBatches, purchaseTable } from '../resources/purchases/purchase-table.ts';
import { childEnvironment } from '../settings/settings.ts';
import { openPipe } from './pipe.ts';
import type { ExportJob } from './run-job.ts';
import { spool } from './spool.ts';

const program = builtProgram('src/exports/export-worker.ts');

/** Queries have priority. */
const niceness = 10;

type ExportOptions = {
  readonly threads: number;
  /** Of each process; as DuckDB writes sizes. */
  readonly memoryLimit: string;
  readonly dataDirectory: string;
  /** Other thresholds than those of production. */
  readonly shortcuts?: Partial<Shortcuts>;
};

type Input = { readonly files: StoreFiles } | { readonly csv: AsyncIterable<Uint8Array> };

/**
 * Writes files, and all Parquet, in processes of their own, and other batches here. Batches are read
 * without waiting for the client: a transaction of Postgres is open until all are read.
 */
export function createExportWriters({ dataDirectory, ...options }: ExportOptions): ExportWriters {
  const limits = { ...options, shortcuts: { ...defaultShortcuts, ...options.shortcuts } };
  const nextJob = () => ({ ...limits, spillDirectory: spillDirectory(dataDirectory, 'export') });
  const writeTable: ExportWriters['writeTable'] = ({ table, batches }, output, signal) => {
    const job = nextJob();
    const { format, spreadsheet } = output;
    const spooled = (lines: Format) =>
      spool(writeBatches(lines, table, batches), `${job.spillDirectory}.spool`);
    if (format !== 'parquet') return spooled(formatWith(format, spreadsheet));
    const source = { csv: { columns: table.columns } };
    return runExportProcess({ ...job, format, source }, { csv: spooled(formats.csv) }, signal);
  };
  const writeExport: ExportWriters['writeExport'] = (source, filters, output, signal) => {
    if (!('files' in source)) {
      const batches = purchaseBatches(source.purchases);
      return writeTable({ table: purchaseTable, batches }, output, signal);
    }
    const { base, part, asOf } = source.files;
    const ofFiles = { filters, hasBase: base !== null, part, asOf };
    return runExportProcess({ ...nextJob(), ...output, source: ofFiles }, source, signal);
  };
  return { writeExport, writeTable };
}

/** If the process fails, throws its message. */
async function* runExportProcess(
  job: ExportJob,
  input: Input,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void> {
  signal.throwIfAborted();
  const { child, output } = await start(job, input);
  const exited = waitForExit(child);
  const inputPipeline =
    'csv' in input && child.stdin !== null
      ? pipeline(Readable.from(input.csv), child.stdin)
      : Promise.resolve();
  // Awaited below, after the last byte.
  inputPipeline.catch(() => {});
  const end = () => {
    child.kill('SIGKILL');
    output.destroy();
  };
  signal.addEventListener('abort', end, { once: true });
  try {
    // The signal may have been aborted while the pipe was opened.
    signal.throwIfAborted();
    // A process may not raise its priority.
    if (child.pid !== undefined) setPriority(child.pid, Math.max(niceness, getPriority()));
    // If the job cannot be sent, the process has ended, and `exited` says so.
    child.send(job, () => {});
    yield* output;
    signal.throwIfAborted();
    await inputPipeline;
    const failure = await exited;
    if (failure !== null) throw new Error(`the export process failed: ${failure}`);
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    signal.removeEventListener('abort', end);
    end();
    // `inputPipeline` is not awaited: since Node 22 a pipeline settles only after its source has ended.
    await exited;
    await rm(job.spillDirectory, { recursive: true, force: true });
  }
}

async function start(
  { spillDirectory }: ExportJob,
  input: Input,
): Promise<{ child: ChildProcess; output: Socket }> {
  await mkdir(dirname(spillDirectory), { recursive: true });
  const { readable, writable } = await openPipe(`${spillDirectory}.pipe`);
  const output = new Socket({ fd: readable, readable: true, writable: false });
  try {
    const stdio: StdioOptions = [
      'csv' in input ? 'pipe' : 'ignore',
      writable,
      'inherit',
      'ipc',
      ...('files' in input ? [input.files.log, input.files.base ?? ('ignore' as const)] : []),
    ];
    const child = fork(program, [String(stdio.length)], {
      env: childEnvironment(undefined),
      serialization: 'advanced',
      stdio,
    });
    return { child, output };
  } catch (error) {
    output.destroy();
    throw error;
  } finally {
    closeSync(writable);
  }
}

/** Null if the process succeeds; otherwise its message. */
function waitForExit(child: ChildProcess): Promise<string | null> {
  return new Promise((resolve) => {
    let message: string | undefined;
    child.once('message', (text: string) => {
      message = text;
    });
    child.once('error', (error) => resolve(error.message));
    // After the exit and the last message.
    child.once('exit', (code, signal) => {
      const settle = () =>
        resolve(code === 0 ? null : (message ?? `it ended with ${signal ?? code}`));
      if (child.connected) child.once('disconnect', settle);
      else settle();
    });
  });
}
