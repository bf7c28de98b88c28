import { inRounds, type Rounds } from '../../measure/rounds.ts';
import { median, quantile, summaryOf } from '../../measure/statistics.ts';
import type { Scope } from '../../runner/scope.ts';
import type { RunningService } from '../../setup/running-service.ts';
import { authorization, type BenchmarkShop } from '../../setup/shops.ts';
import { type LoadRequest, measureLoad } from './load.ts';

const clientCounts = [1, 8, 32, 128] as const;

/**
 * The queries of many dashboards and scripts. A query with a new `value` is in no cache: a fifth of
 * the mix. The others stay cached, because nothing changes here.
 */
const mix: readonly ((value: number) => string)[] = [
  () => '/v1/purchases/stats?group_by=utm_campaign',
  () => '/v1/customers?limit=25',
  () => '/v1/purchases?limit=25',
  (value) => `/v1/purchases/stats?group_by=utm_source&max_value_in_cents=${value}`,
  () => '/v1/me',
  () => '/v1/purchases/stats?group_by=day&group_limit=50',
  () => '/v1/customers?q=maria&limit=25',
  () => '/v1/email-campaigns?limit=25',
  (value) => `/v1/purchases?limit=25&max_value_in_cents=${value}`,
  () => '/v1/purchases/stats?status=paid',
];

/** Throughput and latency by number of clients. */
export async function measureMixedLoad(
  scope: Scope,
  { api, shops }: RunningService,
  milliseconds: number,
  rounds: Rounds,
) {
  const next = requestsOf(shops);
  const measured = await inRounds(
    clientCounts.map((clients) => {
      const load = { server: api, clients, milliseconds, next, status: 200 };
      return () => measureLoad(scope, load);
    }),
    rounds,
  );
  return clientCounts.map((clients, index) => {
    const loads = measured[index] ?? [];
    const latenciesMs = loads.flatMap((load) => load.latenciesMs);
    return {
      clients,
      requestsPerSecond: summaryOf(loads, (load) => load.requestsPerSecond),
      latencyMs: { median: median(latenciesMs), p99: quantile(latenciesMs, 0.99) },
      requests: latenciesMs.length,
      serverMsPerRequest: summaryOf(loads, (load) => load.serverMsPerRequest),
      clientCores: summaryOf(loads, (load) => load.clientCores),
    };
  });
}

/** Each query is sent for each organization. */
function requestsOf(shops: readonly BenchmarkShop[]): () => LoadRequest {
  // Greater than all values of purchases, so that all match, and than those of other queries.
  let value = 2 * 10 ** 12;
  let sent = 0;
  return () => {
    const index = sent % mix.length;
    const path = mix[index] as (typeof mix)[number];
    // Each time that a query is sent, its organization is the next one.
    const repetition = Math.floor(sent / mix.length);
    const shop = shops[(repetition + index) % shops.length] as BenchmarkShop;
    sent += 1;
    value += 1;
    return { path: path(value), headers: authorization(shop) };
  };
}
