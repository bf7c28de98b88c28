import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { packageFile, programArguments } from '../../src/process/package-files.ts';
import { recordLines, registerSecret } from './logged-lines.ts';

export type Program = {
  readonly child: ChildProcess;
  /** The output of both streams so far. */
  output(): string;
  /** The standard output so far. */
  stdout(): string;
  /** Resolves with the first match in the output. Rejects if the program ends without a match. */
  printed(pattern: RegExp): Promise<RegExpExecArray>;
  /** Sends a signal and resolves with the exit code. */
  end(signal: NodeJS.Signals): Promise<number | null>;
  /** Resolves with the exit code. */
  exited(): Promise<number | null>;
};

export type ProgramOptions = {
  readonly uid?: number;
  readonly gid?: number;
  readonly cwd?: string;
  /** Both streams use one pipe, which keeps the order of writes. */
  readonly isMerged?: boolean;
  /** As by `ulimit -n`. */
  readonly maxOpenFiles?: number;
};

const settings = {
  LOG_LEVEL: 'info',
  // Verification would repair damage before the tested code detects it.
  VERIFY_EVERY: 'off',
  // On a busy machine, Postgres may respond late.
  DATABASE_SILENCE_MS: '30000',
};

/** What npm installs as the command `crm-data-service`. */
export const commandLine = packageFile('src/commands/crm-data-service.cjs');

/**
 * Runs a program, given by an absolute path, or by that of its source from the root. Programs of the service run
 * from `dist`.
 */
export function runProgram(
  path: string,
  args: readonly string[],
  environment: Record<string, string>,
  { isMerged = false, maxOpenFiles, ...options }: ProgramOptions = {},
): Program {
  const { DATABASE_URL: _url, DATA_DIR: _directory, ...inherited } = process.env;
  const command = [process.execPath, ...programArguments(path), ...args];
  const limit = maxOpenFiles === undefined ? '' : `ulimit -n ${maxOpenFiles}; `;
  const isDirect = limit === '' && !isMerged;
  const shell = isDirect ? [] : ['sh', '-c', `${limit}exec "$0" "$@"${isMerged ? ' 2>&1' : ''}`];
  const [file = '', ...rest] = [...shell, ...command];
  const child = spawn(file, rest, {
    cwd: packageFile('.'),
    env: { ...inherited, ...settings, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...options,
  });
  let output = '';
  let stdout = '';
  const collect = (text: string) => {
    output += text;
  };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    collect(text);
  });
  child.stderr.setEncoding('utf8').on('data', collect);
  createInterface({ input: child.stderr }).on('line', recordLines);
  createInterface({ input: child.stdout }).on('line', (line) => {
    // Commands print the secret of a new key. Merged streams also have log lines.
    for (const [secret] of line.matchAll(/\bcrm_live_\w+/g)) registerSecret(secret);
    if (line.startsWith('{"level":')) recordLines(line);
  });
  const closed = once(child, 'close');
  return {
    child,
    output: () => output,
    stdout: () => stdout,
    async printed(pattern) {
      for (;;) {
        const match = pattern.exec(output);
        if (match !== null) return match;
        const next = Promise.race([
          once(child.stdout, 'data'),
          once(child.stderr, 'data'),
          closed.then(() => 'closed'),
        ]);
        if ((await next) === 'closed' && pattern.exec(output) === null) {
          throw new Error(`ended without printing ${pattern}:\n${output}`);
        }
      }
    },
    async end(signal) {
      child.kill(signal);
      await closed;
      return child.exitCode;
    },
    async exited() {
      await closed;
      return child.exitCode;
    },
  };
}
