/** Tasks that `close` aborts. */
export function createAbortableTasks() {
  const closing = new AbortController();
  const running = new Set<Promise<unknown>>();
  return {
    /** Runs `task` with a signal that `signal` or `close` aborts. */
    run<Result>(
      signal: AbortSignal | undefined,
      task: (signal: AbortSignal) => Promise<Result>,
    ): Promise<Result> {
      const signals = signal === undefined ? [closing.signal] : [signal, closing.signal];
      const either = AbortSignal.any(signals);
      if (either.aborted) return Promise.reject(either.reason);
      const result = task(either);
      running.add(result);
      const remove = () => running.delete(result);
      result.then(remove, remove);
      return result;
    },
    /** Resolves when all tasks have ended. */
    async close() {
      closing.abort(new Error('the engine is closing'));
      await Promise.allSettled(running);
    },
  };
}
