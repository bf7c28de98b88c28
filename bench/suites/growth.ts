import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { timeInRounds } from '../measure/rounds.ts';
import { pairedRatios, type Summary, summarize } from '../measure/statistics.ts';
import { type Question, questionsFor, requireSameAnswers } from '../queries/standard-queries.ts';
import type { Plot } from '../report/plots.ts';
import { spread } from '../report/tables.ts';
import type { Bench, ReportText, Suite } from '../runner/suite.ts';
import { loadFiles, openDuckDBEngine } from '../setup/engines.ts';
import { createDatabase } from '../setup/postgres.ts';
import { seedShops } from '../setup/shops.ts';

/** An exponent above this is called worse than linear: below lies what measuring blurs. */
const linearExponent = 1.15;

export const growth: Suite = {
  name: 'growth',
  description: 'how the time of each question grows with the purchases it is about',
  isQuick: true,
  async run(bench) {
    const { purchases = 300_000, seed = 42, rounds = 9 } = bench.options;
    const sizes = sizesUpTo(purchases);
    const shops = await openShops(bench, sizes, seed);
    const times = await measure(bench, shops, rounds);
    const figures = times.map(({ question, milliseconds }) => ({
      question,
      milliseconds: milliseconds.map(summarize),
      steps: stepsBetween(sizes, milliseconds),
    }));
    return {
      options: { purchases, seed, rounds },
      text: describe(sizes, figures),
      plots: [
        plot(sizes, figures, 'Statistics as an organization grows', isStatistics),
        plot(sizes, figures, 'Lists as an organization grows', (name) => !isStatistics(name)),
      ],
      figures: { sizes, linearExponent, questions: figures },
    };
  },
};

const isStatistics = (question: string) => question.startsWith('statistics');

/**
 * Powers of ten from 10,000, or from a tenth where that is less, and the most itself. Sizes
 * less than twice as large as the one before would tell of nothing but noise.
 */
export function sizesUpTo(most: number): number[] {
  const sizes: number[] = [];
  for (let size = Math.min(10_000, Math.floor(most / 10)); size * 2 <= most; size *= 10) {
    sizes.push(size);
  }
  return [...sizes, most];
}

type Shop = { readonly ask: readonly (() => Promise<unknown>)[]; readonly names: string[] };

/** An organization of each size, all of them in one database and behind one engine. */
async function openShops(bench: Bench, sizes: readonly number[], seed: number): Promise<Shop[]> {
  const { scope } = bench;
  const database = await createDatabase(bench);
  const organizationIds: bigint[] = [];
  for (const purchases of sizes) {
    const [shop] = await seedShops(scope, database, { organizations: 1, purchases, seed });
    if (shop === undefined) throw new Error('nothing was seeded');
    organizationIds.push(shop.organizationId);
  }
  const duckdb = await openDuckDBEngine(scope, database, await loadFiles(scope, database));
  const postgres = createPostgresEngine(database.pool);
  const shops: Shop[] = [];
  for (const organizationId of organizationIds) {
    const shop = { organizationId, database: database.pool, duckdb, postgres };
    const questions: Question[] = await questionsFor(shop);
    scope.signal.throwIfAborted();
    await requireSameAnswers(shop, questions);
    shops.push({
      ask: questions.map((question) => () => question.ask(duckdb)),
      names: questions.map(({ name }) => name),
    });
  }
  return shops;
}

/** For each question the times at each size, of the same rounds. */
async function measure({ scope }: Bench, shops: readonly Shop[], rounds: number) {
  const times: { readonly question: string; readonly milliseconds: readonly number[][] }[] = [];
  for (const [index, question] of (shops[0]?.names ?? []).entries()) {
    scope.signal.throwIfAborted();
    const contenders = Object.fromEntries(
      shops.map(({ ask }, size) => [`size ${size}`, ask[index] ?? null]),
    );
    const measured = await timeInRounds(contenders, rounds);
    times.push({ question, milliseconds: Object.values(measured).map(({ wall }) => wall) });
  }
  return times;
}

/** Time grows as rows to the power of the exponent: 0 does not grow, 1 is linear. */
type Step = { readonly from: number; readonly to: number; readonly exponent: Summary };

function stepsBetween(sizes: readonly number[], milliseconds: readonly number[][]): Step[] {
  return sizes.slice(1).map((to, index) => {
    const from = sizes[index] ?? Number.NaN;
    const ratios = pairedRatios(milliseconds[index + 1] ?? [], milliseconds[index] ?? []);
    const exponents = ratios.map((ratio) => Math.log(ratio) / Math.log(to / from));
    return { from, to, exponent: summarize(exponents) };
  });
}

type Figures = {
  readonly question: string;
  readonly milliseconds: readonly Summary[];
  readonly steps: readonly Step[];
};

const rows = (size: number): string => size.toLocaleString('en');

function describe(sizes: readonly number[], figures: readonly Figures[]): ReportText {
  const worse = figures.flatMap(({ question, steps }) =>
    steps
      .filter(({ exponent }) => exponent.median > linearExponent)
      .map(
        ({ from, to, exponent }) =>
          `Worse than linear: ${question}, from ${rows(from)} to ${rows(to)} purchases ` +
          `with the exponent ${spread(exponent, 2)}.`,
      ),
  );
  return [
    {
      head: ['ms', ...sizes.map((size) => `${rows(size)} purchases`)],
      rows: figures.map(({ question, milliseconds }) => [
        question,
        ...milliseconds.map((time) => spread(time)),
      ]),
    },
    {
      head: [
        'exponent',
        ...sizes.slice(1).map((to, index) => `${rows(sizes[index] ?? 0)} → ${rows(to)}`),
      ],
      rows: figures.map(({ question, steps }) => [
        question,
        ...steps.map(({ exponent }) => spread(exponent, 2)),
      ]),
    },
    `Time grows as purchases to the power of the exponent: 0 does not grow, 1 is linear.`,
    ...(worse.length === 0 ? [`None is worse than linear (above ${linearExponent}).`] : worse),
  ];
}

function plot(
  sizes: readonly number[],
  figures: readonly Figures[],
  title: string,
  belongs: (question: string) => boolean,
): Plot {
  return {
    kind: 'curves',
    title,
    note: 'DuckDB alone, without HTTP. Both axes are logarithmic: linear growth climbs as steeply as the dotted line.',
    x: { label: 'purchases', scale: 'log' },
    y: { label: 'ms', scale: 'log' },
    showsProportion: true,
    curves: figures
      .filter(({ question }) => belongs(question))
      .map(({ question, milliseconds }) => ({
        label: question,
        points: sizes.map((x, index) => ({ x, y: milliseconds[index]?.median ?? Number.NaN })),
      })),
  };
}
