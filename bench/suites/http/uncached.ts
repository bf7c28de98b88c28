import { Agent, get } from 'node:http';
import type { PurchaseEngine } from '../../../src/domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../../src/domain/purchase-query.ts';
import { timeInRounds } from '../../measure/rounds.ts';
import { pairedRatios, summarize } from '../../measure/statistics.ts';
import { type Scope, withScope } from '../../runner/scope.ts';
import { openDuckDBEngine } from '../../setup/engines.ts';
import type { RunningService } from '../../setup/running-service.ts';
import { type BenchmarkShop, keyOf } from '../../setup/shops.ts';

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
        scope.signal.throwIfAborted();
        const url = `${service.api.url}${path}max_value_in_cents=`;
        const { organizationId } = shop;
        const { alone, http, bare } = await timeInRounds(
          {
            alone: () => ask(engine, organizationId, { maxValueInCents: ++fresh }),
            http: () => request(agent, `${url}${++fresh}`, shop),
            bare: () => request(agent, bareUrl, shop),
          },
          rounds,
        );
        figures.push({
          question: name,
          purchases,
          engineMs: summarize(alone.wall),
          httpMs: summarize(http.wall),
          bareMs: summarize(bare.wall),
          ratio: summarize(pairedRatios(http.wall, alone.wall)),
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
