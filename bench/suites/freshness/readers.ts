import { setTimeout as sleep } from 'node:timers/promises';
import type { Scope } from '../../runner/scope.ts';
import type { RunningService } from '../../setup/running-service.ts';

/** Each reader requests statistics of every organization once a second until the scope ends. Returns a counter. */
export function startReaders(
  scope: Scope,
  { shops, get }: Pick<RunningService, 'shops' | 'get'>,
  readers: number,
): () => number {
  let made = 0;
  const intervalMs = 1000 / shops.length;
  const read = async (first: number) => {
    let dueAt = performance.now() + (first * intervalMs) / readers;
    for (let turn = first; !scope.signal.aborted; turn += 1) {
      const now = performance.now();
      if (now < dueAt) await sleep(dueAt - now, undefined, { signal: scope.signal });
      const shop = shops[turn % shops.length];
      if (shop !== undefined) await get('/v1/purchases/stats?group_by=utm_campaign', shop);
      made += 1;
      dueAt = Math.max(dueAt + intervalMs, performance.now() - 1_000);
    }
  };
  const reading = Array.from({ length: readers }, (_, first) => read(first).catch(scope.fail));
  scope.afterwards(() => Promise.all(reading));
  return () => made;
}
