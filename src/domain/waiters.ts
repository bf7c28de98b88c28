/** A request that waits. `deadline` is in monotonic milliseconds. */
export type Waiter<Wanted> = Wanted & { readonly deadline: number; readonly wake: () => void };

export type Waiters<Wanted> = {
  /**
   * Resolves when `sweep` wakes it, at the deadline, or if `ended` is aborted. Rejects with the reason of
   * `signal`.
   */
  wait(
    wanted: Wanted & { readonly deadline: number },
    signal?: AbortSignal,
    ended?: AbortSignal,
  ): Promise<void>;
  close(): void;
};

/**
 * All waiting requests with one timer. Without requests there is none. `sweep` wakes those for which there is
 * something new, and runs once at a time. If it fails, all wake up and meet the failure themselves.
 */
export function createWaiters<Wanted>(
  intervalMs: number,
  sweep: (waiters: ReadonlySet<Waiter<Wanted>>) => void | Promise<void>,
): Waiters<Wanted> {
  const waiters = new Set<Waiter<Wanted>>();
  let timer: NodeJS.Timeout | null = null;
  let isSweeping = false;

  const wakeAll = (): void => {
    for (const { wake } of waiters) wake();
  };

  const look = async (): Promise<void> => {
    const now = performance.now();
    for (const { deadline, wake } of waiters) if (deadline <= now) wake();
    if (isSweeping || waiters.size === 0) return;
    isSweeping = true;
    try {
      await sweep(waiters);
    } catch {
      wakeAll();
    }
    isSweeping = false;
  };

  const stopIfIdle = (): void => {
    if (waiters.size > 0 || timer === null) return;
    clearInterval(timer);
    timer = null;
  };

  return {
    async wait(wanted, signal, ended) {
      signal?.throwIfAborted();
      if (ended?.aborted === true) return;
      timer ??= setInterval(look, intervalMs);
      await new Promise<void>((resolve) => {
        const wake = () => {
          signal?.removeEventListener('abort', wake);
          ended?.removeEventListener('abort', wake);
          waiters.delete(waiter);
          stopIfIdle();
          resolve();
        };
        const waiter: Waiter<Wanted> = { ...wanted, wake };
        waiters.add(waiter);
        signal?.addEventListener('abort', wake, { once: true });
        ended?.addEventListener('abort', wake, { once: true });
      });
      signal?.throwIfAborted();
    },
    close: wakeAll,
  };
}
