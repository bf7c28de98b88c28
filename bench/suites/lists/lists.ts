import { createPostgresEngine } from '../../../src/engines/postgres/engine.ts';
import type { Database } from '../../../src/postgres/connection/pool.ts';
import { inRounds, timed, wall } from '../../measure/rounds.ts';
import { quantile, summaryOf } from '../../measure/statistics.ts';
import { decimal, spread, tableOf } from '../../report/tables.ts';
import type { Scope } from '../../runner/scope.ts';
import { defineSuite } from '../../runner/suite.ts';
import { createInProcessApi } from '../../setup/in-process-api.ts';
import { createDatabase } from '../../setup/postgres.ts';
import { measureCustomerWrites } from './customer-writes.ts';
import { type ListQuery, listQueries } from './list-queries.ts';
import { createListShop, type ListShop } from './list-shop.ts';

export const lists = defineSuite({
  name: 'lists',
  description: 'every list and search of Postgres, and their cost for writers of customers',
  isQuick: false,
  defaults: { customers: 200_000, seed: 42, rounds: 15 },
  async run({ options: { customers, seed, rounds }, scope, server }) {
    const database = await createDatabase({ scope, server });
    const shop = await createListShop(scope, database, { customers, seed });
    const queries = await listQueries(database.pool, shop);
    const figures = await measure(scope, database.pool, shop, queries, rounds);
    const writes = await measureCustomerWrites(database, shop.organizationId, rounds);
    const slowestMs = Math.max(...figures.map(({ milliseconds }) => milliseconds.median));
    return {
      text: [
        tableOf(figures, {
          query: ({ query }) => query,
          ms: ({ milliseconds }) => spread(milliseconds),
          p95: ({ p95 }) => decimal(p95),
        }),
        `Slowest median: ${decimal(slowestMs)} ms.`,
        tableOf(writes, {
          write: ({ write }) => write,
          ms: ({ milliseconds }) => spread(milliseconds, 2),
        }),
      ],
      figures: { queries: figures, slowestMs, writes },
    };
  },
});

/** Sends each query once in each round. */
async function measure(
  scope: Scope,
  database: Database,
  shop: ListShop,
  queries: readonly ListQuery[],
  rounds: number,
) {
  const get = createInProcessApi(scope, database, createPostgresEngine(database));
  const tasks = queries.map(({ url }) => timed(() => get(url, shop)));
  const measured = await inRounds(tasks, { rounds, signal: scope.signal });
  return queries.map(({ name }, index) => {
    const times = measured[index] ?? [];
    const p95 = quantile(times.map(wall), 0.95);
    return { query: name, milliseconds: summaryOf(times, wall), p95 };
  });
}
