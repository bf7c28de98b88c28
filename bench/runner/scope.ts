import { setMaxListeners } from 'node:events';

/** Undoes everything that was started in the scope when the scope ends: after success, failure or Ctrl-C. */
export type Scope = {
  /** Aborted when the scope ends early: by Ctrl-C, or by a failure in the background. */
  readonly signal: AbortSignal;
  /** Ends the scope with this error: for failures that no caller awaits. */
  fail(error: unknown): void;
  /**
   * Registers work for the end. The last registered runs first. Because the scope may end while
   * something starts, register first, and let `undo` wait for the start.
   */
  afterwards(undo: () => Promise<unknown>): void;
};

/** Runs `work` in a scope that ends when `outer` is aborted, at the latest. */
export async function withScope<Result>(
  outer: AbortSignal,
  work: (scope: Scope) => Promise<Result>,
): Promise<Result> {
  const ending = new AbortController();
  const signal = AbortSignal.any([outer, ending.signal]);
  // Every wait in the scope adds a listener.
  setMaxListeners(0, signal);
  const undos: (() => Promise<unknown>)[] = [];
  const scope: Scope = {
    signal,
    fail: (error) => ending.abort(error),
    afterwards: (undo) => void undos.push(undo),
  };
  signal.throwIfAborted();
  const working = work(scope);
  try {
    return await Promise.race([working, rejection(signal)]);
  } finally {
    ending.abort(new Error('the scope has ended'));
    await undoAll(undos);
    // Abandoned work ends because its resources are gone. It may have started more meanwhile.
    await working.catch(() => {});
    await undoAll(undos);
  }
}

async function undoAll(undos: (() => Promise<unknown>)[]): Promise<void> {
  for (let undo = undos.pop(); undo !== undefined; undo = undos.pop()) {
    await undo().catch((problem: unknown) => console.error('Could not clean up:', problem));
  }
}

function rejection(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
