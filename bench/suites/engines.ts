import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { inRounds, timed, wall } from '../measure/rounds.ts';
import { ratioOf, summaryOf } from '../measure/statistics.ts';
import { createPlainSqlEngine } from '../queries/plain-sql.ts';
import {
  commonQueries,
  type PurchaseQuery,
  requireEqualResults,
} from '../queries/purchase-queries.ts';
import { spread, tableOf } from '../report/tables.ts';
import { defineSuite } from '../runner/suite.ts';
import { prepareShop } from '../setup/prepared-shops.ts';

export const engines = defineSuite({
  name: 'engines',
  description: 'statistics and lists: DuckDB, plain SQL in Postgres, and the fallback engine',
  isQuick: true,
  defaults: { purchases: 200_000, seed: 42, rounds: 15 },
  async run({ options, scope, server }) {
    const { purchases, seed, rounds } = options;
    const size = { purchases, seed };
    const { shop, database, duckdb } = await prepareShop({ scope, server }, size);
    const queries = await commonQueries(shop.organizationId, database.pool);
    const plainSql = await createPlainSqlEngine(scope, database);
    const fallback = createPostgresEngine(database.pool);
    await requireEqualResults(scope.signal, queries, [duckdb, plainSql, fallback]);
    const measure = async ({ name, run }: PurchaseQuery) => {
      const tasks = {
        duckdb: timed(() => run(duckdb)),
        postgres: timed(() => run(plainSql)),
        fallback: timed(() => run(fallback)),
      };
      const times = await inRounds(tasks, { rounds, signal: scope.signal });
      return {
        query: name,
        duckdb: summaryOf(times.duckdb, wall),
        postgres: summaryOf(times.postgres, wall),
        fallback: summaryOf(times.fallback, wall),
        postgresRatio: ratioOf(times.postgres, times.duckdb, wall),
        fallbackRatio: ratioOf(times.fallback, times.duckdb, wall),
      };
    };
    const figures: Awaited<ReturnType<typeof measure>>[] = [];
    for (const query of queries) figures.push(await measure(query));
    return {
      text: [
        tableOf(figures, {
          query: ({ query }) => query,
          'DuckDB ms': ({ duckdb }) => spread(duckdb),
          'Postgres ms': ({ postgres }) => spread(postgres),
          'Fallback engine ms': ({ fallback }) => spread(fallback),
          'Postgres / DuckDB': ({ postgresRatio }) => spread(postgresRatio, 2),
          'Fallback / DuckDB': ({ fallbackRatio }) => spread(fallbackRatio, 2),
        }),
        'Postgres: the best plain SQL that a user would write, with parallel workers and covering ' +
          'indexes. Fallback engine: the queries of the API until the first file of an ' +
          'organization is published, with the indexes of the operational table.',
      ],
      figures: { milliseconds: figures },
    };
  },
});
