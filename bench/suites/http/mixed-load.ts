import { median, quantile, summarize } from '../../measure/statistics.ts';
import type { Scope } from '../../runner/scope.ts';
import type { RunningService } from '../../setup/running-service.ts';
import { type BenchmarkShop, keyOf } from '../../setup/shops.ts';
import { type LoadRequest, type MeasuredLoad, measureLoad } from './load.ts';

export const clientCounts = [1, 8, 32, 128] as const;

/**
 * What many dashboards and scripts ask for together. `fresh` never comes twice: a fifth
 * of all is in no cache. A change would make the rest new as well; nothing changes here.
 */
const mix: readonly ((fresh: number) => string)[] = [
  () => '/v1/purchases/stats?group_by=utm_campaign',
  () => '/v1/customers?limit=25',
  () => '/v1/purchases?limit=25',
  (fresh) => `/v1/purchases/stats?group_by=utm_source&max_value_in_cents=${fresh}`,
  () => '/v1/me',
  () => '/v1/purchases/stats?group_by=day&group_limit=50',
  () => '/v1/customers?q=maria&limit=25',
  () => '/v1/email-campaigns?limit=25',
  (fresh) => `/v1/purchases?limit=25&max_value_in_cents=${fresh}`,
  () => '/v1/purchases/stats?status=paid',
];

/** Throughput and latency by the number of clients, the numbers in turn in each round. */
export async function measureMixedLoad(
  scope: Scope,
  { api, shops }: RunningService,
  { rounds, milliseconds }: { readonly rounds: number; readonly milliseconds: number },
) {
  const measured = clientCounts.map((): MeasuredLoad[] => []);
  const next = requestsOf(shops);
  for (let round = -1; round < rounds; round += 1) {
    for (const [index, clients] of clientCounts.entries()) {
      const load = { server: api, clients, milliseconds, next, statuses: [200] };
      const result = await measureLoad(scope, load);
      if (round >= 0) measured[index]?.push(result);
    }
  }
  return clientCounts.map((clients, index) => {
    const loads = measured[index] ?? [];
    const latenciesMs = loads.flatMap((load) => load.latenciesMs);
    return {
      clients,
      requestsPerSecond: summarize(loads.map((load) => load.requestsPerSecond)),
      latencyMs: { median: median(latenciesMs), p99: quantile(latenciesMs, 0.99) },
      requests: latenciesMs.length,
      serverMsPerRequest: summarize(loads.map((load) => load.serverMsPerRequest)),
      clientCores: summarize(loads.map((load) => load.clientCores)),
    };
  });
}

/** Each organization is asked each question. */
export function requestsOf(shops: readonly BenchmarkShop[]): () => LoadRequest {
  // Above all values, so that all purchases match; and above what else was asked for.
  let fresh = 2 * 10 ** 12;
  let turn = 0;
  return () => {
    const question = turn % mix.length;
    const path = mix[question] as (typeof mix)[number];
    // A question goes to the next organization each time it comes.
    const time = Math.floor(turn / mix.length);
    const shop = shops[(time + question) % shops.length] as BenchmarkShop;
    turn += 1;
    fresh += 1;
    return { path: path(fresh), headers: keyOf(shop) };
  };
}
