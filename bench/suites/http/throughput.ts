import { inRounds, type Rounds } from '../../measure/rounds.ts';
import { ratioOf, type Summary, summaryOf } from '../../measure/statistics.ts';
import type { Scope } from '../../runner/scope.ts';
import type { RunningService } from '../../setup/running-service.ts';
import { authorization } from '../../setup/shops.ts';
import { type Load, type LoadRequest, type MeasuredLoad, measureLoad } from './load.ts';

export type Throughput = {
  readonly requestsPerSecond: Summary;
  /** Requests a second, divided by those of the bare route in the same round. */
  readonly share: Summary;
  readonly serverMsPerRequest: Summary;
  readonly clientCores: Summary;
};

const path = '/v1/purchases/stats?group_by=utm_campaign';
const clients = 32;

/** Cached responses and 304s, against a route that only checks the key. */
export async function measureThroughput(
  scope: Scope,
  { api, shops, get }: RunningService,
  bare: Load['server'],
  milliseconds: number,
  rounds: Rounds,
) {
  const bareRequests: LoadRequest[] = [];
  const requests: LoadRequest[] = [];
  const conditionalRequests: LoadRequest[] = [];
  for (const shop of shops) {
    const headers = authorization(shop);
    // Also fills the API's cache.
    const { etag } = await get(path, shop);
    bareRequests.push({ path: '/', headers });
    requests.push({ path, headers });
    conditionalRequests.push({ path, headers: { ...headers, 'if-none-match': etag } });
  }
  const measure = (server: Load['server'], status: number, cycle: readonly LoadRequest[]) => {
    let sent = 0;
    const next = () => cycle[sent++ % cycle.length] as LoadRequest;
    return () => measureLoad(scope, { server, clients, milliseconds, next, status });
  };
  const loads = await inRounds(
    {
      bare: measure(bare, 200, bareRequests),
      cached: measure(api, 200, requests),
      notModified: measure(api, 304, conditionalRequests),
    },
    rounds,
  );
  const describe = (measured: readonly MeasuredLoad[]): Throughput => ({
    requestsPerSecond: summaryOf(measured, (load) => load.requestsPerSecond),
    share: ratioOf(measured, loads.bare, (load) => load.requestsPerSecond),
    serverMsPerRequest: summaryOf(measured, (load) => load.serverMsPerRequest),
    clientCores: summaryOf(measured, (load) => load.clientCores),
  });
  return {
    clients,
    bare: describe(loads.bare),
    cached: describe(loads.cached),
    notModified: describe(loads.notModified),
  };
}
