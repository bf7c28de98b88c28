import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { timeInRounds } from '../measure/rounds.ts';
import { pairedRatios, summarize } from '../measure/statistics.ts';
import { questionsFor, requireSameAnswers } from '../queries/standard-queries.ts';
import { spread } from '../report/tables.ts';
import type { Bench, Suite } from '../runner/suite.ts';
import { loadFiles, openDuckDBEngine } from '../setup/engines.ts';
import { createDatabase } from '../setup/postgres.ts';
import { seedShops } from '../setup/shops.ts';

export const engines: Suite = {
  name: 'engines',
  description: 'statistics and lists, DuckDB against Postgres, after comparing the answers',
  isQuick: true,
  async run(bench) {
    const { purchases = 200_000, seed = 42, rounds = 15 } = bench.options;
    const shop = await openEngines(bench, purchases, seed);
    const questions = await questionsFor(shop);
    await requireSameAnswers(shop, questions);
    const figures = [];
    for (const question of questions) {
      bench.scope.signal.throwIfAborted();
      const contenders = {
        duckdb: () => question.ask(shop.duckdb),
        postgres: () => question.ask(shop.postgres),
      };
      const { duckdb, postgres } = await timeInRounds(contenders, rounds);
      figures.push({
        question: question.name,
        duckdb: summarize(duckdb.wall),
        postgres: summarize(postgres.wall),
        ratio: summarize(pairedRatios(postgres.wall, duckdb.wall)),
      });
    }
    return {
      options: { purchases, seed, rounds },
      text: [
        {
          head: ['question', 'DuckDB ms', 'Postgres ms', 'ratio'],
          rows: figures.map(({ question, duckdb, postgres, ratio }) => [
            question,
            spread(duckdb),
            spread(postgres),
            spread(ratio),
          ]),
        },
      ],
      plots: [
        {
          kind: 'bars',
          title: 'How many times faster DuckDB answers',
          note: 'Time in Postgres over time in DuckDB, round by round. To the left of 1 Postgres is faster.',
          unit: '×',
          scale: 'log',
          baseline: 1,
          bars: figures.map(({ question, ratio }) => ({ label: question, value: ratio })),
        },
      ],
      figures: { milliseconds: figures },
    };
  },
};

/** One organization in Postgres and in a DuckDB file, both engines in this process. */
export async function openEngines(bench: Bench, purchases: number, seed: number) {
  const { scope } = bench;
  const database = await createDatabase(bench);
  const [shop] = await seedShops(scope, database, { organizations: 1, purchases, seed });
  if (shop === undefined) throw new Error('nothing was seeded');
  const dataDirectory = await loadFiles(scope, database);
  return {
    ...shop,
    /** For a process over the same database and files. */
    environment: { databaseUrl: database.url, DATA_DIR: dataDirectory },
    database: database.pool,
    duckdb: await openDuckDBEngine(scope, database, dataDirectory),
    postgres: createPostgresEngine(database.pool),
  };
}
