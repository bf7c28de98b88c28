import Table from 'cli-table3';
import { Bench } from 'tinybench';
import { createProgram, runProgram, wholeNumberOption } from '../src/commands/command-line.ts';
import { measureFreshness } from './freshness.ts';
import { type Question, questionsFor, requireSameAnswers } from './questions.ts';
import { type BenchmarkShop, openShop } from './shop.ts';

const program = createProgram('npm run bench --', 'Measures the purchase engines side by side.')
  .option('--purchases <number>', 'how many', wholeNumberOption(1000), 1_000_000)
  .option('--seed <number>', 'of the demo data', wholeNumberOption(0, 2 ** 31 - 1), 42)
  .option('--rounds <number>', 'measurements of each question', wholeNumberOption(3), 15)
  .action(async (options: { purchases: number; seed: number; rounds: number }) => {
    console.log(`Preparing ${options.purchases} purchases.`);
    const shop = await openShop(options.purchases, options.seed);
    try {
      console.log(`Seeded in ${seconds(shop.seedMs)}, first load in ${seconds(shop.loadMs)}.`);
      const questions = await questionsFor(shop);
      await requireSameAnswers(shop, questions);
      console.log(await compareEngines(shop, questions, options.rounds));
      const delays = await measureFreshness(shop, 40);
      console.log(
        `From commit to visible: median ${Math.round(quantile(delays, 0.5))} ms, ` +
          `95th percentile ${Math.round(quantile(delays, 0.95))} ms of ${delays.length} writes.`,
      );
    } finally {
      await shop.close();
    }
  });

await runProgram(program);

/** Medians of interleaved rounds: whatever else the machine does hits both alike. */
async function compareEngines(
  shop: BenchmarkShop,
  questions: readonly Question[],
  rounds: number,
): Promise<string> {
  const table = new Table({
    head: ['question', 'DuckDB ms', 'Postgres ms', 'ratio'],
    style: { head: [], border: [], compact: true },
    colAligns: ['left', 'right', 'right', 'right'],
  });
  for (const question of questions) {
    const times = { duckdb: [] as number[], postgres: [] as number[] };
    for (let round = 0; round < rounds; round += 1) {
      for (const name of ['duckdb', 'postgres'] as const) {
        const bench = new Bench({ iterations: 1, time: 0, warmup: round === 0 });
        bench.add(name, () => question.ask(shop[name]).then(() => {}));
        await bench.run();
        const result = bench.tasks[0]?.result;
        if (result === undefined || !('latency' in result)) throw new Error('nothing was measured');
        times[name].push(result.latency.mean);
      }
    }
    const duckdb = quantile(times.duckdb, 0.5);
    const postgres = quantile(times.postgres, 0.5);
    table.push([
      question.name,
      duckdb.toFixed(1),
      postgres.toFixed(1),
      (postgres / duckdb).toFixed(1),
    ]);
  }
  return table.toString();
}

function quantile(measured: readonly number[], share: number): number {
  const sorted = [...measured].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(1)} s`;
}
