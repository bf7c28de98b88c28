import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { inRounds, type Time, timed, wall } from '../measure/rounds.ts';
import { type Summary, summarize, summaryOf } from '../measure/statistics.ts';
import {
  commonQueries,
  type PurchaseQuery,
  requireEqualResults,
} from '../queries/purchase-queries.ts';
import { spread, tableOf } from '../report/tables.ts';
import { defineSuite, type ReportText } from '../runner/suite.ts';
import { openDuckDBEngine, prepareShops } from '../setup/prepared-shops.ts';

export const growth = defineSuite({
  name: 'growth',
  description: 'how the time of each query grows with the number of its purchases',
  isQuick: true,
  defaults: { purchases: 300_000, seed: 42, rounds: 9 },
  async run({ options: { purchases: max, seed, rounds }, scope, server }) {
    const { signal } = scope;
    const sizes = sizesUpTo(max);
    const shopSizes = sizes.map((purchases) => ({ organizations: 1, purchases, seed }));
    const shops = await prepareShops({ scope, server }, shopSizes);
    const { pool } = shops.database;
    const duckdb = await openDuckDBEngine(scope, shops);
    const fallback = createPostgresEngine(pool);
    const queries: PurchaseQuery[][] = [];
    for (const { organizationId } of shops.shops) {
      const ofShop = await commonQueries(organizationId, pool);
      await requireEqualResults(signal, ofShop, [duckdb, fallback]);
      queries.push(ofShop);
    }
    const figures: Figures[] = [];
    for (const [index, { name }] of (queries[0] ?? []).entries()) {
      const tasks = queries.map((ofShop) => timed(async () => ofShop[index]?.run(duckdb)));
      const times = await inRounds(tasks, { rounds, signal });
      figures.push(figuresOf(name, sizes, times));
    }
    return {
      text: describe(sizes, figures),
      figures: { sizes, queries: figures },
    };
  },
});

/**
 * Powers of ten from 10,000, or from a tenth if that is less, and the maximum itself. The
 * difference between sizes of less than factor two would be noise.
 */
function sizesUpTo(max: number): number[] {
  const sizes: number[] = [];
  for (let size = Math.min(10_000, Math.floor(max / 10)); size * 2 <= max; size *= 10) {
    sizes.push(size);
  }
  return [...sizes, max];
}

/** Time grows as rows to the power of the exponent: 0 does not grow, 1 is linear. */
type Step = { readonly from: number; readonly to: number; readonly exponent: Summary };

type Figures = {
  readonly name: string;
  /** The time for each size. */
  readonly milliseconds: readonly Summary[];
  readonly steps: readonly Step[];
};

function figuresOf(
  name: string,
  sizes: readonly number[],
  times: readonly (readonly Time[])[],
): Figures {
  const logarithms = times.map((ofSize) => ofSize.map(({ wall }) => Math.log(wall)));
  const steps = sizes.slice(1).map((to, index) => {
    const from = sizes[index] as number;
    const [shorter = [], longer = []] = [logarithms[index], logarithms[index + 1]];
    const exponents = longer.map(
      (logarithm, round) => (logarithm - (shorter[round] ?? Number.NaN)) / Math.log(to / from),
    );
    return { from, to, exponent: summarize(exponents) };
  });
  return {
    name,
    milliseconds: times.map((ofSize) => summaryOf(ofSize, wall)),
    steps,
  };
}

const purchases = (size: number): string => size.toLocaleString('en');
const nothing = { median: Number.NaN, lowerQuartile: Number.NaN, upperQuartile: Number.NaN };

function describe(sizes: readonly number[], figures: readonly Figures[]): ReportText {
  const milliseconds = sizes.map((size, index) => [
    `${purchases(size)} purchases`,
    (figure: Figures) => spread(figure.milliseconds[index] ?? nothing),
  ]);
  const exponents = sizes
    .slice(1)
    .map((to, index) => [
      `${purchases(sizes[index] as number)} → ${purchases(to)}`,
      (figure: Figures) => spread(figure.steps[index]?.exponent ?? nothing, 2),
    ]);
  const name = (figure: Figures) => figure.name;
  return [
    tableOf(figures, { ms: name, ...Object.fromEntries(milliseconds) }),
    tableOf(figures, { exponent: name, ...Object.fromEntries(exponents) }),
    'Time grows as purchases to the power of the exponent: 0 does not grow, 1 is linear.',
  ];
}
