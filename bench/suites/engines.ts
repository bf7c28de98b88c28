import { Bench as TimedRun } from 'tinybench';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { loadFiles, openDuckDBEngine } from '../duckdb-engine.ts';
import { pairedRatios, summarize } from '../measurements.ts';
import { createDatabase } from '../postgres.ts';
import { type Question, questionsFor, requireSameAnswers } from '../questions.ts';
import { spread } from '../report.ts';
import { seedShops } from '../shops.ts';
import type { Bench, Suite } from '../suite.ts';

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
      figures.push({ question: question.name, ...(await compare(shop, question, rounds)) });
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

/** Interleaved rounds: whatever else the machine does hits both engines alike. */
async function compare(
  engine: { readonly duckdb: PurchaseEngine; readonly postgres: PurchaseEngine },
  question: Question,
  rounds: number,
) {
  const times = { duckdb: [] as number[], postgres: [] as number[] };
  for (let round = 0; round < rounds; round += 1) {
    for (const name of ['duckdb', 'postgres'] as const) {
      const timed = new TimedRun({ iterations: 1, time: 0, warmup: round === 0 });
      timed.add(name, () => question.ask(engine[name]).then(() => {}));
      await timed.run();
      const result = timed.tasks[0]?.result;
      if (result === undefined || !('latency' in result)) throw new Error('nothing was measured');
      times[name].push(result.latency.mean);
    }
  }
  return {
    duckdb: summarize(times.duckdb),
    postgres: summarize(times.postgres),
    ratio: summarize(pairedRatios(times.postgres, times.duckdb)),
  };
}

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
