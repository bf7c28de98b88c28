import { inspect } from 'node:util';
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import pg from 'pg';
import type { Logger } from 'pino';
import { parseDuration } from '../domain/duration.ts';
import { StoreUnavailableError } from '../domain/purchase-engine.ts';
import { describeDatabaseFailure } from '../postgres/connection/database-failure.ts';
import { errorText, serializeError } from '../process/error-text.ts';
import { withFileAdvice } from '../process/file-advice.ts';
import { createLog, logProcessEvents } from '../process/log.ts';
import { OperatorError } from '../process/operator-error.ts';
import { keepFilesPrivate } from '../process/private-files.ts';
import type { Shard } from '../purchase-store/ticks/shard.ts';
import { type CommandName, commands } from './commands.ts';

export const exitCodes = {
  done: 0,
  failed: 1,
  wrongUsage: 2,
  /** As of a process that SIGINT ends. */
  stopped: 130,
  /** As of a process that SIGPIPE ends, which Node ignores. */
  closedOutput: 141,
} as const;

export function createProgram(name: string, description: string): Command {
  return new Command(name).description(description).exitOverride().showHelpAfterError();
}

export const createCommand = (name: CommandName): Command =>
  createProgram(`crm-data-service ${name}`, commands[name]);

let serviceLog: Logger | null = null;

/**
 * Makes the program a service: its standard error is a log, also of failures and of warnings of Node, and
 * it does not end with a reader of its output.
 */
export function runAsService(name: string): void {
  serviceLog = createLog(name, 'info');
  logProcessEvents(serviceLog);
}

/**
 * Runs the program with this process's arguments. A failure is one line on standard error. Only an
 * unexpected failure includes its stack.
 */
export async function runProgram(program: Command): Promise<void> {
  keepFilesPrivate();
  for (const stream of [process.stdout, process.stderr]) stream.on('error', endWithOutput);
  for (const command of program.commands) command.exitOverride().showHelpAfterError();
  try {
    await program.parseAsync();
  } catch (error) {
    process.exitCode = reportFailure(error);
  }
}

/** Ends a command that cannot print, without a message if the reader has ended, such as `head`. */
function endWithOutput(error: NodeJS.ErrnoException): void {
  if (serviceLog !== null) return;
  process.exit(error.code === 'EPIPE' ? exitCodes.closedOutput : reportFailure(error));
}

function reportFailure(error: unknown): number {
  // Commander has already printed the message or the help.
  if (error instanceof CommanderError) {
    return error.exitCode === 0 ? exitCodes.done : exitCodes.wrongUsage;
  }
  const message = environmentFailure(error);
  if (serviceLog === null) console.error(message ?? inspect(serializeError(error)));
  else if (message === null) serviceLog.fatal({ err: error }, 'the process failed');
  else serviceLog.fatal(message);
  return exitCodes.failed;
}

/** One line about a condition of the environment; null for other errors. */
function environmentFailure(error: unknown): string | null {
  if (error instanceof OperatorError) return error.message;
  const failure = describeDatabaseFailure(error);
  if (failure !== null) return `${failure.message} ${failure.advice}`.trim();
  if (error instanceof pg.DatabaseError) return otherRefusal(error);
  if (error instanceof StoreUnavailableError) {
    return `ClickHouse cannot be used: ${errorText(error)}. Check the server, and CLICKHOUSE_URL.`;
  }
  const { code = '', syscall } = error as NodeJS.ErrnoException;
  return syscall !== undefined && /^(ERR_FS_)?E[A-Z0-9]+$/.test(code)
    ? withFileAdvice(error as Error)
    : null;
}

/** A timeout, a cancelled statement, a deadlock, a violated constraint, or an error of this program. */
function otherRefusal(error: pg.DatabaseError): string {
  const { code, constraint, table } = error;
  const place = constraint ?? table;
  return (
    `Postgres refused: ${errorText(error)} (SQLSTATE ${code}${place ? `, ${place}` : ''}). ` +
    'Run the command again. If it fails again, read the log of Postgres.'
  );
}

/** Prints a value as JSON, or as text. */
export const print = (json: boolean | undefined, value: unknown, text: () => string): void =>
  console.log(json === true ? JSON.stringify(value, null, 2) : text());

/** Parses an option such as `90s`, `30m`, `6h` or `1d` as milliseconds. */
export function durationOption(text: string): number {
  const milliseconds = parseDuration(text);
  if (milliseconds !== null) return milliseconds;
  throw new InvalidArgumentError('It must be a time such as 90s, 30m, 6h or 1d.');
}

export function nameOption(text: string): string {
  if (text.trim() !== '') return text;
  throw new InvalidArgumentError('It must not be empty.');
}

/** Returns a parser of a whole number within bounds. */
export function wholeNumberOption(min: number, max = Number.MAX_SAFE_INTEGER) {
  return (text: string): number => {
    const number = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (number >= min && number <= max) return number;
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
  };
}

/** Parses an option: `1/4` is the first of four shards. */
export function shardOption(text: string): Shard {
  const [, number, of] = /^(\d{1,4})\/(\d{1,4})$/.exec(text) ?? [];
  const shard = { number: Number(number), of: Number(of) };
  if (shard.number >= 1 && shard.number <= shard.of) return shard;
  throw new InvalidArgumentError('It must look like 1/4: the shard, and the number of shards.');
}
