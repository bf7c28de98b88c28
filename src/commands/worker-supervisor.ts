import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { Logger } from 'pino';
import { backoffMs } from '../process/backoff.ts';
import { builtProgram } from '../process/package-files.ts';
import { childEnvironment } from '../settings/settings.ts';

// A separate program, because `src` does not import `sync`.
const workerProgram = builtProgram('sync/main.ts');
const maxPauseMs = 30_000;
/** After this time, an end counts as the first one. */
const stableAfterMs = 60_000;

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
  let ends = 0;
  let child: ChildProcess = start();

  function start(): ChildProcess {
    const startedAt = performance.now();
    const started = fork(workerProgram, [], {
      env: childEnvironment(databaseUrl),
      // In its own session, the worker gets no Ctrl-C of the terminal, only `stop`.
      detached: true,
    });
    // The only message of a worker (sync/main.ts).
    started.once('message', setUpToDate);
    started.once('exit', (code, signal) => {
      if (stopping) return;
      ends = performance.now() - startedAt > stableAfterMs ? 1 : ends + 1;
      const pauseMs = Math.round(backoffMs(ends, maxPauseMs));
      log.error({ code, signal, pauseMs }, 'the sync worker ended; starting it again');
      restart = setTimeout(() => {
        child = start();
      }, pauseMs);
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
