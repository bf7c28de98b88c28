import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { DuckDBInstance } from '@duckdb/node-api';
import { to as copyTo } from 'pg-copy-streams';
import { purchaseColumns } from '../../src/domain/purchase.ts';
import { withDuckDBConnection } from '../../src/duckdb/connection.ts';
import { type Database, withConnection } from '../../src/postgres/connection/pool.ts';
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

/** More changes than a tick reads: the worker merges them into a new base. */
const changes = 60_000;

export const load = defineSuite({
  name: 'load',
  description: "the worker's first load and a merge of changes, against a script of a few lines",
  isQuick: true,
  defaults: { purchases: 200_000, seed: 42, rounds: 3 },
  async run({ options: { purchases, seed, rounds }, scope, server }) {
    const database = await createDatabase({ scope, server });
    const { organizationId } = await seedShop(scope, database, { purchases, seed });
    const measured: Round[] = [];
    // The first round, which does not count, fills the caches.
    for (let round = -1; round < rounds; round += 1) {
      const each = await withScope(scope.signal, async (inner) => {
        const script = await startScript(inner, database.pool, organizationId);
        const worker = await startWorker(inner, database);
        const load = { script: await script.load(), worker: await worker.run() };
        const idleMs = (await worker.run()).milliseconds;
        const changed = await changePurchases(database.pool, organizationId, round);
        const merge = { script: await script.merge(changed), worker: await worker.run() };
        return { idleMs, load, merge };
      });
      if (round >= 0) measured.push(each);
    }
    const { duckdbMemoryLimit } = readSettings(childEnvironment(database.url));
    const figures = {
      load: compare(purchases, measured, 'load'),
      merge: compare(purchases, measured, 'merge'),
    };
    return {
      text: describe(figures, duckdbMemoryLimit),
      figures: { ...figures, duckdbMemoryLimit, rounds: measured },
    };
  },
});

/** Changes purchases of any age, and returns the condition that they match. */
async function changePurchases(
  database: Database,
  organizationId: bigint,
  round: number,
): Promise<string> {
  const changed = `organization_id = ${organizationId} and id in (
    select id from purchases where organization_id = ${organizationId}
    order by hashint8(id + ${round + 1}) limit ${changes})`;
  await database.query(`
    update purchases set purchase_value_in_cents = purchase_value_in_cents + 1 where ${changed}`);
  return changed;
}

/** What a user would write: COPY into a file, and the file into a sorted table of DuckDB. Times are milliseconds. */
async function startScript(scope: Scope, database: Database, organizationId: bigint) {
  const directory = await scratchDirectory(scope);
  const path = join(directory, 'purchases.csv');
  const columns = purchaseColumns.map(({ name }) => name).join(', ');
  const copy = (condition: string, order = '') =>
    withConnection(database, (connection) => {
      const statement = `copy (select ${columns} from purchases where ${condition} ${order}) to stdout (format csv, header)`;
      return pipeline(connection.query(copyTo(statement)), createWriteStream(path));
    });
  const inDuckDB = async (statements: string) => {
    const instance = await DuckDBInstance.create(join(directory, 'purchases.duckdb'));
    await withDuckDBConnection(instance, (connection) => connection.run(statements));
    instance.closeSync();
    await rm(path);
  };
  const wallOf = async (work: () => Promise<void>) => (await time(work)).wall;
  return {
    load: () =>
      wallOf(async () => {
        await copy(`organization_id = ${organizationId}`, 'order by created_at, id');
        await inDuckDB(`
          create table purchase as from read_csv('${path}') order by created_at, id; checkpoint`);
      }),
    merge: (changed: string) =>
      wallOf(async () => {
        await copy(changed);
        await inDuckDB(`
          create temp table changed as from read_csv('${path}');
          create table merged as
            from (from purchase anti join changed using (id) union all by name from changed)
            order by created_at, id;
          drop table purchase; checkpoint`);
      }),
  };
}

/** A worker on an empty data folder. Its time without work is subtracted from that with work. */
async function startWorker(scope: Scope, database: BenchmarkDatabase) {
  const dataDirectory = await scratchDirectory(scope);
  const environment = { databaseUrl: database.url, DATA_DIR: dataDirectory, LOG_LEVEL: 'warn' };
  return {
    async run() {
      const startedAt = performance.now();
      const worker = startProgram(scope, 'sync/main.ts', ['once'], environment);
      const peak = watchPeak(scope, worker.pid);
      await worker.done();
      return { milliseconds: performance.now() - startedAt, peakResidentBytes: peak() };
    },
  };
}

type Work = {
  readonly script: number;
  readonly worker: { readonly milliseconds: number; readonly peakResidentBytes: number };
};
type Round = { readonly idleMs: number; readonly load: Work; readonly merge: Work };

function compare(purchases: number, rounds: readonly Round[], work: 'load' | 'merge') {
  const workerMs = (round: Round) => round[work].worker.milliseconds - round.idleMs;
  const rate = (milliseconds: number) => (1000 * purchases) / milliseconds;
  return {
    rowsPerSecond: {
      script: summaryOf(rounds, (round) => rate(round[work].script)),
      worker: summaryOf(rounds, (round) => rate(workerMs(round))),
    },
    /** The time of the worker, divided by that of the script in the same round. */
    ratio: summaryOf(rounds, (round) => workerMs(round) / round[work].script),
    peakResidentBytes: Math.max(...rounds.map((round) => round[work].worker.peakResidentBytes)),
  };
}

type Figures = Readonly<Record<'load' | 'merge', ReturnType<typeof compare>>>;

function describe(figures: Figures, duckdbMemoryLimit: string): ReportText {
  const rowOf = (name: string, { rowsPerSecond, ratio, peakResidentBytes }: Figures['load']) => [
    name,
    spread(rowsPerSecond.script, 0),
    spread(rowsPerSecond.worker, 0),
    spread(ratio, 2),
    mebibytes(peakResidentBytes),
  ];
  return [
    {
      head: ['', 'script rows/s', 'worker rows/s', 'worker / script, time', 'worker, peak memory'],
      rows: [
        rowOf('first load', figures.load),
        rowOf(`merge of ${changes.toLocaleString('en')} changes`, figures.merge),
      ],
    },
    `script: COPY into a file, and a sorted table of DuckDB. worker: without its start. ` +
      `DUCKDB_MEMORY_LIMIT is ${duckdbMemoryLimit}.`,
  ];
}
