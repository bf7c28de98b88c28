import { setMaxListeners } from 'node:events';

/**
 * How long things live: whatever is started within a scope is undone when it ends,
 * be it done, failed or stopped by Ctrl-C.
 */
export type Scope = {
  /** Aborted when the scope ends early: Ctrl-C, or a failure in the background. */
  readonly signal: AbortSignal;
  /** Ends the scope with this error: for what fails while nobody awaits it. */
  fail(error: unknown): void;
  /**
   * Undone at the end, in reverse order. Register before waiting for what is started,
   * and let `undo` wait for it: the scope may end meanwhile.
   */
  afterwards(undo: () => Promise<unknown>): void;
};

/** Thrown where a person stopped the run. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
}

/** Runs `work` in a scope of its own that ends no later than `outer` is aborted. */
export async function withScope<Result>(
  outer: AbortSignal,
  work: (scope: Scope) => Promise<Result>,
): Promise<Result> {
  const ending = new AbortController();
  const signal = AbortSignal.any([outer, ending.signal]);
  // Whatever waits within the scope listens, and there may be any number of it.
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
    ending.abort(new InterruptedError('the scope has ended'));
    const problems = await undoAll(undos);
    // With all it used gone, work that was abandoned ends too, and may have started more.
    await working.catch(() => {});
    problems.push(...(await undoAll(undos)));
    for (const problem of problems) console.error('Could not clean up:', problem);
  }
}

async function undoAll(undos: (() => Promise<unknown>)[]): Promise<unknown[]> {
  const problems: unknown[] = [];
  for (let undo = undos.pop(); undo !== undefined; undo = undos.pop()) {
    await undo().catch((problem: unknown) => problems.push(problem));
  }
  return problems;
}

function rejection(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
