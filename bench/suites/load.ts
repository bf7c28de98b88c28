import { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { to as copyTo } from 'pg-copy-streams';
import { type Database, withConnection } from '../../src/postgres/connection/pool.ts';
import { purchaseSelectList } from '../../src/postgres/lists/purchase-select-list.ts';
import { childEnvironment, readSettings } from '../../src/settings/settings.ts';
import { watchPeak } from '../measure/process-usage.ts';
import { time } from '../measure/rounds.ts';
import { summaryOf } from '../measure/statistics.ts';
import { mebibytes, spread } from '../report/tables.ts';
import { type Scope, withScope } from '../runner/scope.ts';
import { defineSuite, type ReportText } from '../runner/suite.ts';
import { type BenchmarkDatabase, createDatabase, scratchDirectory } from '../setup/postgres.ts';
import { startProgram } from '../setup/programs.ts';
import { seedShop } from '../setup/shops.ts';

export const load = defineSuite({
  name: 'load',
  description: "the worker's first load, against reading the same rows to nowhere",
  isQuick: true,
  defaults: { purchases: 200_000, seed: 42, rounds: 3 },
  async run({ options: { purchases, seed, rounds }, scope, server }) {
    const database = await createDatabase({ scope, server });
    const { organizationId } = await seedShop(scope, database, { purchases, seed });
    // Not measured: the first reader fills the caches.
    await drainPurchases(database.pool, organizationId);
    const measured: Round[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const drainMs = await drainPurchases(database.pool, organizationId);
      const load = await withScope(scope.signal, (inner) => loadOnce(inner, database));
      measured.push({ drainMs, ...load });
    }
    const { duckdbMemoryLimit } = readSettings(childEnvironment(database.url));
    const figures = compare(purchases, measured);
    return {
      text: describe(figures, duckdbMemoryLimit),
      figures: { ...figures, duckdbMemoryLimit, rounds: measured },
    };
  },
});

/** Reads all purchases of an organization with COPY, and drops them. Returns milliseconds. */
async function drainPurchases(database: Database, organizationId: bigint): Promise<number> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  // COPY takes no parameters. A bigint is only digits.
  const statement = `
    copy (
      select ${purchaseSelectList}
      from purchases
      where organization_id = ${organizationId}
      order by created_at, id
    ) to stdout`;
  const { wall } = await withConnection(database, (connection) =>
    time(() => pipeline(connection.query(copyTo(statement)), nowhere)),
  );
  return wall;
}

/** Runs a worker on an empty data folder, and again without work, to subtract its start. */
async function loadOnce(scope: Scope, database: BenchmarkDatabase) {
  const dataDirectory = await scratchDirectory(scope);
  const environment = { databaseUrl: database.url, DATA_DIR: dataDirectory, LOG_LEVEL: 'warn' };
  const runWorker = async () => {
    const startedAt = performance.now();
    const worker = startProgram(scope, 'sync/main.ts', ['once'], environment);
    const peak = watchPeak(scope, worker.pid);
    await worker.done();
    return { milliseconds: performance.now() - startedAt, peakResidentBytes: peak() };
  };
  const { milliseconds: processMs, peakResidentBytes } = await runWorker();
  const { milliseconds: idleMs } = await runWorker();
  return { processMs, idleMs, peakResidentBytes };
}

type Round = { readonly drainMs: number } & Awaited<ReturnType<typeof loadOnce>>;

function compare(purchases: number, rounds: readonly Round[]) {
  const loadMs = ({ processMs, idleMs }: Round) => processMs - idleMs;
  const rate = (milliseconds: number) => (1000 * purchases) / milliseconds;
  return {
    rowsPerSecond: {
      drain: summaryOf(rounds, ({ drainMs }) => rate(drainMs)),
      process: summaryOf(rounds, ({ processMs }) => rate(processMs)),
      load: summaryOf(rounds, (round) => rate(loadMs(round))),
    },
    /** The rate, divided by that of the drain in the same round. */
    processRatio: summaryOf(rounds, ({ drainMs, processMs }) => drainMs / processMs),
    loadRatio: summaryOf(rounds, (round) => round.drainMs / loadMs(round)),
    peakResidentBytes: Math.max(...rounds.map(({ peakResidentBytes }) => peakResidentBytes)),
  };
}

function describe(figures: ReturnType<typeof compare>, duckdbMemoryLimit: string): ReportText {
  const { rowsPerSecond, processRatio, loadRatio } = figures;
  const rows: string[][] = [
    ['COPY to nowhere', spread(rowsPerSecond.drain, 0), '1.00'],
    ['worker without its start', spread(rowsPerSecond.load, 0), spread(loadRatio, 2)],
    ['worker, whole process', spread(rowsPerSecond.process, 0), spread(processRatio, 2)],
  ];
  return [
    { head: ['first load', 'rows/s', 'of COPY to nowhere'], rows },
    `Peak resident memory: ${mebibytes(figures.peakResidentBytes)}. ` +
      `DUCKDB_MEMORY_LIMIT is ${duckdbMemoryLimit}.`,
  ];
}
