import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { compareWithVariants } from '../measure/comparison.ts';
import { createPlainSqlEngines } from '../queries/plain-sql.ts';
import { commonQueries, requireEqualResults } from '../queries/purchase-queries.ts';
import { describeComparisons } from '../report/comparisons.ts';
import { spread, tableOf } from '../report/tables.ts';
import { defineSuite } from '../runner/suite.ts';
import { prepareShop } from '../setup/prepared-shops.ts';

type Figure = Awaited<ReturnType<typeof compareWithVariants>> & { readonly query: string };

export const engines = defineSuite({
  name: 'engines',
  description: 'statistics and lists: DuckDB, plain SQL in Postgres, and the fallback engine',
  isQuick: true,
  defaults: { purchases: 200_000, seed: 42, rounds: 15 },
  async run({ options, scope, server }) {
    const { purchases, seed, rounds } = options;
    const { signal } = scope;
    const { shop, database, duckdb } = await prepareShop({ scope, server }, { purchases, seed });
    const queries = await commonQueries(shop.organizationId, database.pool);
    const { serial, parallel } = await createPlainSqlEngines(scope, database);
    const fallback = createPostgresEngine(database.pool);
    await requireEqualResults(signal, queries, [duckdb, serial, parallel, fallback]);
    const figures: Figure[] = [];
    for (const { name: query, run } of queries) {
      const plainSql = { serial: () => run(serial), parallel: () => run(parallel) };
      const slow = () => run(fallback);
      const compared = await compareWithVariants(() => run(duckdb), plainSql, {
        rounds,
        signal,
        slow,
      });
      figures.push({ query, ...compared });
    }
    return {
      text: [
        ...describeComparisons(figures, ['DuckDB', 'Postgres']),
        'The fallback engine, in the same interleaved rounds:',
        tableOf(figures, {
          query: ({ query }) => query,
          'Fallback engine ms': ({ slow }) => (slow === null ? '–' : spread(slow.other)),
          'Fallback / DuckDB': ({ slow }) => (slow === null ? '–' : spread(slow.ratio, 2)),
        }),
        'Postgres: the best plain SQL that was found, with covering indexes, and with parallel ' +
          'workers where they are faster. Fallback engine: the queries of the API until the first ' +
          'file of an organization is published, with the indexes of the operational table.',
      ],
      figures: { milliseconds: figures },
    };
  },
});
