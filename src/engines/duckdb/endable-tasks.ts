/** Work that lasts as long as somebody takes it, until it is told to end. */
export function createEndableTasks() {
  const closing = new AbortController();
  const running = new Set<Promise<unknown>>();
  return {
    /** Gives what `work` gives, which is told to end by `signal` or by the close. */
    run<Result>(
      signal: AbortSignal | undefined,
      work: (signal: AbortSignal) => Promise<Result>,
    ): Promise<Result> {
      const signals = signal === undefined ? [closing.signal] : [signal, closing.signal];
      const either = AbortSignal.any(signals);
      if (either.aborted) return Promise.reject(either.reason);
      const result = work(either);
      const settled = result.then(
        () => {},
        () => {},
      );
      running.add(settled);
      settled.finally(() => running.delete(settled));
      return result;
    },
    /** Resolves when all of it has ended. */
    async close() {
      closing.abort(new Error('the engine is closing'));
      await Promise.all(running);
    },
  };
}
