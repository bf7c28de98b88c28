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
      running.add(result);
      const forget = () => running.delete(result);
      result.then(forget, forget);
      return result;
    },
    /** Resolves when all of it has ended. */
    async close() {
      closing.abort(new Error('the engine is closing'));
      await Promise.allSettled(running);
    },
  };
}
