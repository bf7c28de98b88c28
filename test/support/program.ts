import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { packageFile, programArguments } from '../../src/package-files.ts';

export type Program = {
  readonly child: ChildProcess;
  /** What it has printed so far, both streams together. */
  output(): string;
  /** What it has printed on standard output alone, for scripts. */
  answer(): string;
  /** Resolves with the first match in the output; rejects once it ends without one. */
  printed(pattern: RegExp): Promise<RegExpExecArray>;
  /** Sends a signal and waits for the end. */
  end(signal: NodeJS.Signals): Promise<number | null>;
  /** Waits for the end and gives the exit code. */
  exited(): Promise<number | null>;
};

export type ProgramOptions = {
  readonly uid?: number;
  readonly gid?: number;
  readonly cwd?: string;
  /** Both streams through one pipe, which keeps the order in which they were written. */
  readonly isMerged?: boolean;
};

const settings = {
  LOG_LEVEL: 'info',
  // What is tested must be noticed by what is meant to notice it, and repaired by nothing else.
  VERIFY_EVERY: 'off',
  // Both cores may be busy.
  DATABASE_SILENCE_MS: '30000',
};

/** Runs a program, by the path of its source from the root; those of the product as operators do. */
export function runProgram(
  path: string,
  args: readonly string[],
  environment: Record<string, string>,
  { isMerged = false, ...options }: ProgramOptions = {},
): Program {
  const { DATABASE_URL: _url, DATA_DIR: _directory, ...inherited } = process.env;
  const command = [process.execPath, ...programArguments(path), ...args];
  const shell = isMerged ? ['sh', '-c', 'exec "$0" "$@" 2>&1'] : [];
  const [file = '', ...rest] = [...shell, ...command];
  const child = spawn(file, rest, {
    cwd: packageFile('.'),
    env: { ...inherited, ...settings, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...options,
  });
  let output = '';
  let answer = '';
  const collect = (text: string) => {
    output += text;
  };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    answer += text;
    collect(text);
  });
  child.stderr.setEncoding('utf8').on('data', collect);
  const closed = once(child, 'close');
  return {
    child,
    output: () => output,
    answer: () => answer,
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
