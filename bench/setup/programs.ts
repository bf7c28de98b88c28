import { fork } from 'node:child_process';
import { once } from 'node:events';
import { packageFile, programArguments } from '../../src/process/package-files.ts';
import { childEnvironment } from '../../src/settings/settings.ts';
import type { Scope } from '../runner/scope.ts';

const stopTimeoutMs = 20_000;
/** The end of the output explains a failure. Memory must stay bounded for an hour of output. */
const keptCharacters = 4 * 2 ** 20;

/** A running program of the project. */
type ChildProgram = {
  readonly pid: number;
  /** The end of the output of both streams. */
  output(): string;
  /** Resolves with the first match in the output. */
  printed(pattern: RegExp): Promise<RegExpExecArray>;
  /** Resolves with `output` after exit code 0; rejects after any other end. */
  done(): Promise<string>;
};

/** Environment variables of a program, with its database. */
export type ProgramEnvironment = Record<string, string> & { readonly databaseUrl: string };

/** Starts a program, by the path of its source in the package. It ends with the scope. */
export function startProgram(
  scope: Scope,
  path: string,
  args: readonly string[],
  { databaseUrl, ...environment }: ProgramEnvironment,
): ChildProgram {
  scope.signal.throwIfAborted();
  const nodeArguments = programArguments(path);
  const child = fork(nodeArguments.at(-1) as string, args, {
    cwd: packageFile('.'),
    execArgv: nodeArguments.slice(0, -1),
    env: { ...childEnvironment(databaseUrl), ...environment },
    silent: true,
    // A session of its own: Ctrl-C in a terminal ends the program once, through the scope.
    detached: true,
  });
  let output = '';
  const collect = (text: string) => {
    output = (output + text).slice(-keptCharacters);
  };
  const streams = [child.stdout, child.stderr].filter((stream) => stream !== null);
  for (const stream of streams) stream.setEncoding('utf8').on('data', collect);
  const closed = once(child, 'close').then(() => child.exitCode);
  scope.afterwards(async () => {
    child.kill('SIGTERM');
    const kill = setTimeout(() => child.kill('SIGKILL'), stopTimeoutMs);
    await closed.catch(() => {});
    clearTimeout(kill);
  });
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
  };
}

/** Starts a program that runs as long as the scope: if it ends earlier, the scope fails. */
export function startService(...[scope, path, ...rest]: Parameters<typeof startProgram>) {
  const program = startProgram(scope, path, ...rest);
  const ended = () => scope.fail(new Error(`${path} ended by itself:\n${program.output()}`));
  program.done().then(ended, ended);
  return program;
}

/** Starts an HTTP server on any free port, without a rate limit. */
export async function startHttpServer(
  scope: Scope,
  path: string,
  environment: ProgramEnvironment,
): Promise<ChildProgram & { readonly url: string }> {
  const settings = { HOST: '127.0.0.1', PORT: '0', RATE_LIMIT_PER_MINUTE: '1000000' };
  const program = startService(scope, path, [], { ...settings, ...environment });
  const [, url = ''] = await program.printed(/Listening on (http[^\s"]+)/);
  return { ...program, url };
}
