import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { Logger } from 'pino';
import { builtProgram } from '../package-files.ts';
import { childEnvironment } from '../settings.ts';

// Started as a program of its own, not imported: the worker depends on this
// folder, never the other way round.
const workerProgram = builtProgram('sync/main.ts');
const restartAfterMs = 1_000;

export type SupervisedWorker = {
  /** Resolves once every organization's file is up to date. */
  readonly upToDate: Promise<void>;
  stop(): Promise<void>;
};

/** Keeps one sync worker running until stopped, whatever happens to it. */
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
      // A session of its own: a terminal's Ctrl-C reaches it through us, once.
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
    // Without a process there is no exit either.
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
