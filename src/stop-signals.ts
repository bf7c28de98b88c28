import { once } from 'node:events';

/** Ctrl-C comes twice at once: from the terminal, and passed on by npm. */
const impatientAfterMs = 1_000;

/**
 * Aborted at the first SIGINT or SIGTERM, or when the parent that started this
 * process with an IPC channel is gone, however that ended. Another signal a while later
 * ends the process at once, for whoever does not want to wait.
 */
export function untilStopped(): AbortSignal {
  const controller = new AbortController();
  let stoppedAt = 0;
  const stop = (signal: NodeJS.Signals) => {
    if (!controller.signal.aborted) {
      stoppedAt = performance.now();
      controller.abort();
    } else if (performance.now() - stoppedAt > impatientAfterMs) {
      process.exit(signal === 'SIGINT' ? 130 : 143);
    }
  };
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  if (process.channel !== undefined) {
    process.once('disconnect', () => controller.abort());
    // Watched, but no reason to stay alive.
    process.channel.unref();
  }
  return controller.signal;
}

/** Resolves once the signal is aborted, at once where it already is. */
export async function untilAborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}
