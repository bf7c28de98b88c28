import type { Scope } from '../../runner/scope.ts';
import type { RunningService } from '../../setup/running-service.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';
import { workAtSteadyRate } from '../../setup/steady-rate.ts';

/** Each reader requests statistics of every organization once a second until the scope ends. Returns a counter. */
export function startReaders(
  scope: Scope,
  { shops, get }: Pick<RunningService, 'shops' | 'get'>,
  readers: number,
): () => number {
  const rate = { workers: readers, intervalMs: 1000 / shops.length };
  return workAtSteadyRate(scope, rate, async (reader, turn) => {
    const shop = shops[(reader + turn) % shops.length] as BenchmarkShop;
    await get('/v1/purchases/stats?group_by=utm_campaign', shop);
    return 1;
  });
}
