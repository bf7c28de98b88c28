import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { Logger } from 'pino';
import { builtProgram } from '../package-files.ts';
import { childEnvironment } from '../settings.ts';

// A separate program, because `src` does not import `sync`.
const workerProgram = builtProgram('sync/main.ts');
const restartAfterMs = 1_000;

type SupervisedWorker = {
  /** Resolves once every organization's file is up to date. */
  readonly upToDate: Promise<void>;
  stop(): Promise<void>;
};

/** Keeps one sync worker running until `stop` is called. */
export function superviseWorker(databaseUrl: string, log: Logger): SupervisedWorker {
  let stopping = false;
  let setUpToDate = () => {};
  const upToDate = new Promise<void>((resolve) => {
    setUpToDate = resolve;
  });
  let restart: NodeJS.Timeout | undefined;
  let child: ChildProcess = start();

  function start(): ChildProcess {
    const started = fork(workerProgram, [], {
      env: childEnvironment(databaseUrl),
      // In its own session, the worker gets no Ctrl-C of the terminal, only `stop`.
      detached: true,
    });
    // The only message of a worker (sync/main.ts).
    started.once('message', setUpToDate);
    started.once('exit', (code, signal) => {
      if (stopping) return;
      log.error({ code, signal }, 'the sync worker ended; starting it again');
      restart = setTimeout(() => {
        child = start();
      }, restartAfterMs);
    });
    // A process that cannot start emits no `exit`.
    started.once('error', (error) => log.error({ err: error }, 'cannot start the sync worker'));
    return started;
  }

  return {
    upToDate,
    async stop() {
      stopping = true;
      clearTimeout(restart);
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
    },
  };
}
