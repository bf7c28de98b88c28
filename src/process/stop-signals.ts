import { once } from 'node:events';
import type { Logger } from 'pino';

/** Ctrl-C sends two signals at once: the terminal's, and npm's. */
const repeatedSignalMs = 1_000;

/**
 * Aborted at the first SIGINT or SIGTERM, or when a parent with an IPC channel ends. A second
 * signal after more than a second ends the process at once.
 */
export function untilStopped(): AbortSignal {
  const controller = new AbortController();
  let stoppedAt = 0;
  const stop = (signal: NodeJS.Signals) => {
    if (!controller.signal.aborted) {
      stoppedAt = performance.now();
      controller.abort();
    } else if (performance.now() - stoppedAt > repeatedSignalMs) {
      process.exit(signal === 'SIGINT' ? 130 : 143);
    }
  };
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  if (process.channel !== undefined) {
    process.once('disconnect', () => controller.abort());
    // The channel must not keep the process alive.
    process.channel.unref();
  }
  return controller.signal;
}

/**
 * Kills this process if it still runs `timeoutMs` after `stopped` is aborted. A kill loses and
 * duplicates no change. `process.exit` would wait for statements of DuckDB.
 */
export function boundShutdown(stopped: AbortSignal, timeoutMs: number, log: Logger): void {
  const end = () => {
    log.error('stopping takes longer than SHUTDOWN_TIMEOUT_SECONDS; the process ends at once');
    process.kill(process.pid, 'SIGKILL');
  };
  void untilAborted(stopped).then(() => setTimeout(end, timeoutMs).unref());
}

export async function untilAborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}
