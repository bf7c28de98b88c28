import { pairedRatios, summarize } from '../../measure/statistics.ts';
import type { Scope } from '../../runner/scope.ts';
import type { RunningService } from '../../setup/running-service.ts';
import { type BenchmarkShop, keyOf } from '../../setup/shops.ts';
import { type Load, type LoadRequest, type MeasuredLoad, measureLoad } from './load.ts';

export type Throughput = ReturnType<typeof compare>;

const cachedPath = '/v1/purchases/stats?group_by=utm_campaign';
const clients = 32;

/**
 * Requests a second: of answers that are known, and of those that the caller has
 * already, against a route that checks the key and no more. All organizations in turn.
 */
export async function measureThroughput(
  scope: Scope,
  service: RunningService,
  bare: Load['server'],
  { rounds, milliseconds }: { readonly rounds: number; readonly milliseconds: number },
) {
  const { shops, api } = service;
  const tags = new Map<BenchmarkShop, string>();
  // Also lets the API remember each answer.
  for (const shop of shops) {
    const answer = await service.get(cachedPath, shop);
    await answer.arrayBuffer();
    tags.set(shop, answer.headers.get('etag') ?? '');
  }
  const cached = (shop: BenchmarkShop) => ({ path: cachedPath, headers: keyOf(shop) });
  const known = (shop: BenchmarkShop) => ({
    path: cachedPath,
    headers: { ...keyOf(shop), 'if-none-match': tags.get(shop) ?? '' },
  });
  const nothing = (shop: BenchmarkShop) => ({ path: '/', headers: keyOf(shop) });
  const loads = {
    bare: { server: bare, next: inTurn(shops, nothing), statuses: [200] },
    cached: { server: api, next: inTurn(shops, cached), statuses: [200] },
    notModified: { server: api, next: inTurn(shops, known), statuses: [304] },
  };
  const names = Object.keys(loads) as (keyof typeof loads)[];
  const none = (): MeasuredLoad[] => [];
  const measured = { bare: none(), cached: none(), notModified: none() };
  // The round before the first compiles what is used often.
  for (let round = -1; round < rounds; round += 1) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const load = await measureLoad(scope, { ...loads[name], clients, milliseconds });
      if (round >= 0) measured[name].push(load);
    }
  }
  return {
    clients,
    bare: compare(measured.bare, measured.bare),
    cached: compare(measured.cached, measured.bare),
    notModified: compare(measured.notModified, measured.bare),
  };
}

function inTurn(shops: readonly BenchmarkShop[], request: (shop: BenchmarkShop) => LoadRequest) {
  const requests = shops.map(request);
  let turn = 0;
  return () => requests[turn++ % requests.length] as LoadRequest;
}

function compare(measured: readonly MeasuredLoad[], bare: readonly MeasuredLoad[]) {
  const rates = (loads: readonly MeasuredLoad[]) =>
    loads.map(({ requestsPerSecond }) => requestsPerSecond);
  return {
    requestsPerSecond: summarize(rates(measured)),
    /** Of the bare route in the same round. */
    share: summarize(pairedRatios(rates(measured), rates(bare))),
    serverMsPerRequest: summarize(measured.map(({ serverMsPerRequest }) => serverMsPerRequest)),
    clientCores: summarize(measured.map(({ clientCores }) => clientCores)),
  };
}
