import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { builtProgram } from '../../src/package-files.ts';
import { childEnvironment } from '../../src/settings.ts';
import type { Scope } from '../runner/scope.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const stopPatienceMs = 20_000;
/** The end of the output explains a failure; an hour of it need not be kept. */
const keptCharacters = 4 * 2 ** 20;

/** One of the project's programs, run as operators run it. */
export type ChildProgram = {
  readonly pid: number;
  /** The end of what it has printed, both streams together. */
  output(): string;
  /** Resolves with the first match in the output. */
  printed(pattern: RegExp): Promise<RegExpExecArray>;
  /** Resolves with `output` once it ended with 0; rejects where it ended otherwise. */
  done(): Promise<string>;
  stop(): Promise<void>;
};

/**
 * Starts a program, by its path from the project's root. It ends with the scope, at
 * the latest.
 */
export function startProgram(
  scope: Scope,
  path: string,
  args: readonly string[],
  { databaseUrl, ...environment }: Record<string, string> & { databaseUrl: string },
): ChildProgram {
  scope.signal.throwIfAborted();
  const isOfBenchmarks = path.startsWith('bench/');
  const child = fork(isOfBenchmarks ? path : builtProgram(path), args, {
    cwd: root,
    execArgv: isOfBenchmarks ? ['--import', 'tsx'] : [],
    env: { ...childEnvironment(databaseUrl), ...environment },
    silent: true,
    // A session of its own: a terminal's Ctrl-C ends it through the scope, once.
    detached: true,
  });
  let output = '';
  const collect = (text: string) => {
    output = (output + text).slice(-keptCharacters);
  };
  const streams = [child.stdout, child.stderr].filter((stream) => stream !== null);
  for (const stream of streams) stream.setEncoding('utf8').on('data', collect);
  const closed = once(child, 'close').then(() => child.exitCode);
  const stop = async () => {
    child.kill('SIGTERM');
    const impatience = setTimeout(() => child.kill('SIGKILL'), stopPatienceMs);
    await closed.catch(() => {});
    clearTimeout(impatience);
  };
  scope.afterwards(stop);
  return {
    pid: child.pid ?? 0,
    output: () => output,
    async printed(pattern) {
      for (;;) {
        const match = pattern.exec(output);
        if (match !== null) return match;
        const more = streams.map((stream) => once(stream, 'data'));
        const next = await Promise.race([...more, closed.then(() => 'closed')]);
        if (next === 'closed' && pattern.exec(output) === null)
          throw new Error(`${path} did not print ${pattern}:\n${output}`);
      }
    },
    async done() {
      const code = await closed;
      if (code !== 0) throw new Error(`${path} ${args.join(' ')} ended with ${code}:\n${output}`);
      return output;
    },
    stop,
  };
}

/** Starts a program that is not to end by itself: where it does, the scope fails. */
export function startService(...[scope, path, ...rest]: Parameters<typeof startProgram>) {
  const program = startProgram(scope, path, ...rest);
  let isStopping = false;
  const stop = async () => {
    isStopping = true;
    await program.stop();
  };
  scope.afterwards(stop);
  const ended = () => {
    if (!isStopping) scope.fail(new Error(`${path} ended by itself:\n${program.output()}`));
  };
  program.done().then(ended, ended);
  return { ...program, stop };
}
