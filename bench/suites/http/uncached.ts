import type { PurchaseFilters } from '../../../src/domain/purchase-query.ts';
import { inRounds, type Rounds, timed, wall } from '../../measure/rounds.ts';
import { ratioOf, summaryOf } from '../../measure/statistics.ts';
import {
  createUnseenMaximums,
  listQuery,
  type PurchaseQuery,
  statsQuery,
} from '../../queries/purchase-queries.ts';
import { withScope } from '../../runner/scope.ts';
import { openDuckDBEngine } from '../../setup/prepared-shops.ts';
import type { RunningService } from '../../setup/running-service.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';

type MeasuredShop = { readonly shop: BenchmarkShop; readonly purchases: number };

const queriesOf = (
  { organizationId }: BenchmarkShop,
  filters: PurchaseFilters,
): PurchaseQuery[] => [
  statsQuery(organizationId, '', filters),
  statsQuery(organizationId, '', filters, 'utm_campaign'),
  statsQuery(organizationId, '', filters, 'day'),
  listQuery(organizationId, 'a page of 100', filters, { limit: 100 }),
];

/**
 * The time of responses that are in no cache, over HTTP and in the engine in this process, one
 * query at a time.
 */
export async function measureUncached(
  service: RunningService,
  shops: readonly MeasuredShop[],
  rounds: Rounds,
) {
  return withScope(rounds.signal, async (scope) => {
    const engine = await openDuckDBEngine(scope, service);
    const unseenMaximum = createUnseenMaximums();
    const figures = [];
    for (const { shop, purchases } of shops) {
      for (const [index, { name }] of queriesOf(shop, {}).entries()) {
        const newQuery = () =>
          queriesOf(shop, { maxValueInCents: unseenMaximum() })[index] as PurchaseQuery;
        const times = await inRounds(
          {
            engine: timed(() => newQuery().run(engine)),
            http: timed(() => service.get(newQuery().url, shop)),
          },
          rounds,
        );
        figures.push({
          query: name,
          purchases,
          engineMs: summaryOf(times.engine, wall),
          httpMs: summaryOf(times.http, wall),
          ratio: ratioOf(times.http, times.engine, wall),
        });
      }
    }
    return figures;
  });
}
