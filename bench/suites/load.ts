import { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { to as copyTo } from 'pg-copy-streams';
import { type Database, withConnection } from '../../src/postgres/pool.ts';
import { purchaseSelectList } from '../../src/postgres/purchase-select-list.ts';
import { childEnvironment, readSettings } from '../../src/settings/settings.ts';
import { watchUsage } from '../measure/process-usage.ts';
import { time } from '../measure/rounds.ts';
import { median, summaryOf } from '../measure/statistics.ts';
import { decimal, mebibytes, spread } from '../report/tables.ts';
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
      const drain = await drainPurchases(database.pool, organizationId);
      const load = await withScope(scope.signal, (inner) => loadOnce(inner, database));
      measured.push({ drain, load });
    }
    const { duckdbMemoryLimit } = readSettings(childEnvironment(database.url));
    const figures = compare(purchases, measured);
    return {
      text: describe(figures, duckdbMemoryLimit),
      figures: { ...figures, duckdbMemoryLimit, rounds: measured },
    };
  },
});

/** Reads all purchases of an organization with COPY, and drops them. */
async function drainPurchases(database: Database, organizationId: bigint) {
  let bytes = 0;
  const nowhere = new Writable({
    write(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      done();
    },
  });
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
  return { milliseconds: wall, bytes };
}

/** Runs a worker on an empty data folder, and again without work, to subtract its start. */
async function loadOnce(scope: Scope, database: BenchmarkDatabase) {
  const dataDirectory = await scratchDirectory(scope);
  const environment = { databaseUrl: database.url, DATA_DIR: dataDirectory, LOG_LEVEL: 'warn' };
  const runWorker = async () => {
    const startedAt = performance.now();
    const worker = startProgram(scope, 'sync/main.ts', ['once'], environment);
    const usage = watchUsage(scope, worker.pid);
    await worker.done();
    return { milliseconds: performance.now() - startedAt, used: usage.last() };
  };
  const first = await runWorker();
  const idle = await runWorker();
  return {
    milliseconds: first.milliseconds,
    idleMs: idle.milliseconds,
    peakResidentBytes: first.used?.peakResidentBytes ?? Number.NaN,
    idleResidentBytes: idle.used?.peakResidentBytes ?? Number.NaN,
    cores: (1000 * (first.used?.cpuSeconds ?? Number.NaN)) / first.milliseconds,
  };
}

type Round = {
  readonly drain: Awaited<ReturnType<typeof drainPurchases>>;
  readonly load: Awaited<ReturnType<typeof loadOnce>>;
};
type Figures = ReturnType<typeof compare>;

function compare(purchases: number, rounds: readonly Round[]) {
  const rate = (milliseconds: number) => (1000 * purchases) / milliseconds;
  const rates = rounds.map(({ drain, load: { milliseconds, idleMs } }) => ({
    drain: rate(drain.milliseconds),
    process: rate(milliseconds),
    load: rate(milliseconds - idleMs),
  }));
  const loads = rounds.map((round) => round.load);
  return {
    rowsPerSecond: {
      drain: summaryOf(rates, ({ drain }) => drain),
      process: summaryOf(rates, ({ process }) => process),
      load: summaryOf(rates, ({ load }) => load),
    },
    /** The rate, divided by that of the drain in the same round. */
    processRatio: summaryOf(rates, ({ process, drain }) => process / drain),
    loadRatio: summaryOf(rates, ({ load, drain }) => load / drain),
    drainedBytes: rounds[0]?.drain.bytes ?? Number.NaN,
    idleMs: median(loads.map(({ idleMs }) => idleMs)),
    peakResidentBytes: Math.max(...loads.map(({ peakResidentBytes }) => peakResidentBytes)),
    idleResidentBytes: median(loads.map(({ idleResidentBytes }) => idleResidentBytes)),
    cores: median(loads.map(({ cores }) => cores)),
  };
}

function describe(figures: Figures, duckdbMemoryLimit: string): ReportText {
  const { rowsPerSecond, processRatio, loadRatio } = figures;
  const rows: string[][] = [
    ['COPY to nowhere', spread(rowsPerSecond.drain, 0), '1.00'],
    ['worker without its start', spread(rowsPerSecond.load, 0), spread(loadRatio, 2)],
    ['worker, whole process', spread(rowsPerSecond.process, 0), spread(processRatio, 2)],
  ];
  return [
    { head: ['first load', 'rows/s', 'of COPY to nowhere'], rows },
    `Read: ${mebibytes(figures.drainedBytes)}. A run without work takes ` +
      `${decimal(figures.idleMs / 1000)} s. A load uses ${decimal(figures.cores)} cores.`,
    `Peak resident memory: ${mebibytes(figures.peakResidentBytes)}, of which ` +
      `${mebibytes(figures.idleResidentBytes)} without work. ` +
      `DUCKDB_MEMORY_LIMIT is ${duckdbMemoryLimit}.`,
  ];
}
