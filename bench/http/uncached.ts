import { Agent, get } from 'node:http';
import { performance } from 'node:perf_hooks';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../src/domain/purchase-query.ts';
import { openDuckDBEngine } from '../duckdb-engine.ts';
import { pairedRatios, summarize } from '../measurements.ts';
import type { RunningService } from '../running-service.ts';
import { type Scope, withScope } from '../scope.ts';
import { type BenchmarkShop, keyOf } from '../shops.ts';

/** One question in both languages; filters make it one that nobody has asked before. */
type NewQuestion = {
  readonly name: string;
  readonly path: string;
  ask(engine: PurchaseEngine, organizationId: bigint, filters: PurchaseFilters): Promise<unknown>;
};

const stats = (name: string, groupBy?: 'utm_campaign' | 'day'): NewQuestion => ({
  name,
  path: `/v1/purchases/stats?${groupBy === undefined ? '' : `group_by=${groupBy}&`}`,
  ask: (engine, organizationId, filters) => {
    const query = { filters, groupLimit: 10, ...(groupBy === undefined ? {} : { groupBy }) };
    return engine.stats(organizationId, query);
  },
});

const questions: readonly NewQuestion[] = [
  stats('statistics'),
  stats('statistics by utm_campaign', 'utm_campaign'),
  stats('statistics by day', 'day'),
  {
    name: 'a page of 100',
    path: '/v1/purchases?limit=100&',
    ask: (engine, organizationId, filters) => engine.list(organizationId, { filters, limit: 100 }),
  },
];

export type MeasuredShop = { readonly shop: BenchmarkShop; readonly purchases: number };

/**
 * Milliseconds that an answer takes which is in no cache: over HTTP, and the engine's
 * questions to DuckDB alone, in this process. One question at a time.
 */
export async function measureUncached(
  outer: Scope,
  service: RunningService,
  bareUrl: string,
  shops: readonly MeasuredShop[],
  rounds: number,
) {
  return withScope(outer.signal, async (scope) => {
    const engine = await openDuckDBEngine(scope, service.database, service.dataDirectory);
    const agent = new Agent({ keepAlive: true });
    scope.afterwards(async () => agent.destroy());
    // Above all values: however often it changes, all purchases match.
    let fresh = 10n ** 12n;
    const figures = [];
    for (const { shop, purchases } of shops) {
      for (const { name, path, ask } of questions) {
        const times = { engine: [] as number[], http: [] as number[], bare: [] as number[] };
        for (let round = -1; round < rounds; round += 1) {
          scope.signal.throwIfAborted();
          fresh += 1n;
          const filters = { maxValueInCents: fresh };
          const url = `${service.api.url}${path}max_value_in_cents=${fresh}`;
          const ways = {
            engine: () => ask(engine, shop.organizationId, filters),
            http: () => request(agent, url, shop),
            bare: () => request(agent, bareUrl, shop),
          };
          const names = Object.keys(ways) as (keyof typeof ways)[];
          for (const way of round % 2 === 0 ? names : names.toReversed()) {
            const startedAt = performance.now();
            await ways[way]();
            if (round >= 0) times[way].push(performance.now() - startedAt);
          }
        }
        figures.push({
          question: name,
          purchases,
          engineMs: summarize(times.engine),
          httpMs: summarize(times.http),
          bareMs: summarize(times.bare),
          ratio: summarize(pairedRatios(times.http, times.engine)),
        });
      }
    }
    return figures;
  });
}

/** Resolves once the whole body of a 200 is there. */
function request(agent: Agent, url: string, shop: BenchmarkShop): Promise<void> {
  return new Promise((resolve, reject) => {
    get(url, { agent, headers: keyOf(shop) }, (response) => {
      if (response.statusCode !== 200) {
        reject(new Error(`GET ${url} was answered ${response.statusCode}`));
      }
      response.on('error', reject).on('end', resolve).resume();
    }).on('error', reject);
  });
}
