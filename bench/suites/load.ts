import { performance } from 'node:perf_hooks';
import { childEnvironment, readSettings } from '../../src/settings.ts';
import { watchUsage } from '../measure/process-usage.ts';
import { median, pairedRatios, summarize } from '../measure/statistics.ts';
import type { Plot } from '../report/plots.ts';
import { decimal, mebibytes, spread } from '../report/tables.ts';
import { type Scope, withScope } from '../runner/scope.ts';
import type { ReportText, Suite } from '../runner/suite.ts';
import { type BenchmarkDatabase, createDatabase, scratchDirectory } from '../setup/postgres.ts';
import { startProgram } from '../setup/programs.ts';
import { seedShops } from '../setup/shops.ts';
import { drainPurchases } from './purchase-drain.ts';

export const load: Suite = {
  name: 'load',
  description: "the worker's first load, against reading the same rows to nowhere",
  isQuick: true,
  async run(bench) {
    const { purchases = 200_000, seed = 42, rounds = 3 } = bench.options;
    const { scope } = bench;
    const database = await createDatabase(bench);
    const [shop] = await seedShops(scope, database, { organizations: 1, purchases, seed });
    if (shop === undefined) throw new Error('nothing was seeded');
    // Uncounted: the first reader finds nothing in memory.
    await drainPurchases(database.pool, shop.organizationId);
    const drains = [];
    const passes = [];
    for (let round = 0; round < rounds; round += 1) {
      drains.push(await drainPurchases(database.pool, shop.organizationId));
      passes.push(await withScope(scope.signal, (inner) => loadOnce(inner, database)));
    }
    const { duckdbMemoryLimit } = readSettings(childEnvironment(database.url));
    const figures = compare(purchases, drains, passes);
    return {
      options: { purchases, seed, rounds },
      text: describe(figures, duckdbMemoryLimit),
      plots: [plot(figures)],
      figures: { ...figures, duckdbMemoryLimit, drains, passes },
    };
  },
};

type Drain = Awaited<ReturnType<typeof drainPurchases>>;
type Pass = Awaited<ReturnType<typeof loadOnce>>;

/**
 * One pass of a real worker process over an empty data folder, and one more when
 * nothing is left to do: what both take alike is starting up, not loading.
 */
async function loadOnce(scope: Scope, database: BenchmarkDatabase) {
  const dataDirectory = await scratchDirectory(scope);
  const pass = async () => {
    const startedAt = performance.now();
    const environment = { databaseUrl: database.url, DATA_DIR: dataDirectory, LOG_LEVEL: 'warn' };
    const worker = startProgram(scope, 'sync/main.ts', ['once'], environment);
    const usage = watchUsage(scope, worker.pid);
    await worker.done();
    const milliseconds = performance.now() - startedAt;
    return { milliseconds, used: usage.last() };
  };
  const first = await pass();
  const idle = await pass();
  return {
    milliseconds: first.milliseconds,
    idleMs: idle.milliseconds,
    peakResidentBytes: first.used?.peakResidentBytes ?? Number.NaN,
    idleResidentBytes: idle.used?.peakResidentBytes ?? Number.NaN,
    cpuShare: (1000 * (first.used?.cpuSeconds ?? Number.NaN)) / first.milliseconds,
  };
}

function compare(purchases: number, drains: readonly Drain[], passes: readonly Pass[]) {
  const rate = (milliseconds: number) => (1000 * purchases) / milliseconds;
  const drainRates = drains.map(({ milliseconds }) => rate(milliseconds));
  const passRates = passes.map(({ milliseconds }) => rate(milliseconds));
  const loadRates = passes.map(({ milliseconds, idleMs }) => rate(milliseconds - idleMs));
  return {
    rowsPerSecond: {
      drain: summarize(drainRates),
      pass: summarize(passRates),
      load: summarize(loadRates),
    },
    /** How much of the drain's rate a pass, and the load alone, reach. */
    passRatio: summarize(pairedRatios(passRates, drainRates)),
    loadRatio: summarize(pairedRatios(loadRates, drainRates)),
    drainedBytes: drains[0]?.bytes ?? Number.NaN,
    idleMs: median(passes.map(({ idleMs }) => idleMs)),
    peakResidentBytes: Math.max(...passes.map(({ peakResidentBytes }) => peakResidentBytes)),
    idleResidentBytes: median(passes.map(({ idleResidentBytes }) => idleResidentBytes)),
    cpuShare: median(passes.map(({ cpuShare }) => cpuShare)),
  };
}

function describe(figures: ReturnType<typeof compare>, duckdbMemoryLimit: string): ReportText {
  const { rowsPerSecond, passRatio, loadRatio } = figures;
  return [
    {
      head: ['first load', 'rows/s', 'of the drain'],
      rows: [
        ['COPY to nowhere', spread(rowsPerSecond.drain, 0), '1.00'],
        ['worker, start-up taken off', spread(rowsPerSecond.load, 0), spread(loadRatio, 2)],
        ['worker, whole process', spread(rowsPerSecond.pass, 0), spread(passRatio, 2)],
      ],
    },
    `Drained: ${mebibytes(figures.drainedBytes)}. A pass with nothing to do takes ` +
      `${decimal(figures.idleMs / 1000)} s; loading keeps ${decimal(figures.cpuShare)} cores busy.`,
    `Peak resident memory: ${mebibytes(figures.peakResidentBytes)}, of which ` +
      `${mebibytes(figures.idleResidentBytes)} without loading anything; ` +
      `DUCKDB_MEMORY_LIMIT is ${duckdbMemoryLimit}.`,
  ];
}

const plot = ({ passRatio, loadRatio }: ReturnType<typeof compare>): Plot => ({
  kind: 'bars',
  title: 'How fast a first load is',
  note: 'Rows a second, where reading the same rows to nowhere is 1.',
  unit: '×',
  scale: 'linear',
  baseline: 0,
  bars: [
    { label: 'worker, start-up taken off', value: loadRatio },
    { label: 'worker, whole process', value: passRatio },
  ],
});
