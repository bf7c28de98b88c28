import { setTimeout as sleep } from 'node:timers/promises';
import type { Scope } from '../runner/scope.ts';

/** Work that is later than this is left out: a burst would be another load. */
const maxDelayMs = 1_000;

/**
 * So many workers do their work once in each interval until the scope ends. The time of the next
 * work does not depend on the duration of the work before. Returns the sum of what the work returned.
 */
export function workAtSteadyRate(
  scope: Scope,
  { workers, intervalMs }: { readonly workers: number; readonly intervalMs: number },
  work: (worker: number, turn: number) => Promise<number>,
): () => number {
  let done = 0;
  const repeat = async (worker: number) => {
    let dueAt = performance.now() + (intervalMs * worker) / workers;
    for (let turn = 0; !scope.signal.aborted; turn += 1) {
      const now = performance.now();
      if (now < dueAt) await sleep(dueAt - now, undefined, { signal: scope.signal });
      // Not in one statement, which would read the sum before other workers add to it.
      const more = await work(worker, turn);
      done += more;
      dueAt = Math.max(dueAt + intervalMs, performance.now() - maxDelayMs);
    }
  };
  const working = Array.from({ length: workers }, (_, worker) => repeat(worker).catch(scope.fail));
  scope.afterwards(() => Promise.all(working));
  return () => done;
}
