import { setTimeout as sleep } from 'node:timers/promises';
import { createApiKey } from '../../../src/postgres/api-keys.ts';
import { readSettings } from '../../../src/settings.ts';
import { residentBytesOfFamily } from '../../measure/process-usage.ts';
import { pairedRatios, summarize } from '../../measure/statistics.ts';
import { complaintsOf, decimal, mebibytes, spread } from '../../report/tables.ts';
import type { Scope } from '../../runner/scope.ts';
import type { Suite } from '../../runner/suite.ts';
import { type RunningService, startRunningService } from '../../setup/running-service.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';
import { measureRates, type Rate, readExport } from './export-rates.ts';

const questionsEach = 40;
const slowBytesPerSecond = 2 ** 20;

export const exports: Suite = {
  name: 'export',
  description:
    'rates of exports against COPY, what they do to others, and memory with slow readers',
  isQuick: false,
  async run(bench) {
    const { purchases = 1_000_000, seed = 42, rounds = 3, seconds = 20 } = bench.options;
    const { scope } = bench;
    const [large, other] = [purchases, Math.min(purchases, 200_000)];
    const service = await startRunningService(bench, [
      { organizations: 1, purchases: large, seed },
      { organizations: 1, purchases: other, seed },
    ]);
    const { duckdbThreads: threads, exportsPerKey, exportConcurrency } = readSettings();
    const limits = { perKey: exportsPerKey, atOnce: exportConcurrency };
    const rates = await measureRates(scope, service, { rounds, threads });
    const single = await service.withApi({ DUCKDB_THREADS: '1' });
    const singleRates = await measureRates(scope, single, { rounds, threads: 1 });
    const flood = await measureFlood(service, rounds, limits);
    const slow = await measureSlowReaders(scope, service, seconds * 1000, limits.perKey);
    // The worker is the same.
    const complaints = [...new Set([...service.complaints(), ...single.complaints()])];
    const figures = { threads, limits, rates, singleRates, flood, slow, complaints };
    return {
      options: { purchases, seed, rounds, seconds },
      text: [
        ratesTable(rates, `${threads} threads for DuckDB`),
        processorTable(rates),
        ratesTable(singleRates, '1 thread for DuckDB'),
        'COPY writes the same rows, their labels and plain ids, to /dev/null: as CSV, JSON or Parquet; ' +
          'beside Arrow as CSV. Memory is what the API and the processes of its exports hold together. A process writes each ' +
          'export, the API passes it on and this process reads it, all of them on these processors: ' +
          'of two, one thread for DuckDB leaves them one.',
        `Statistics of another key: ${spread(flood.aloneMs)} ms alone, ${spread(flood.floodedMs)} ms beside ` +
          `${limits.atOnce} exports: ${spread(flood.ratio, 2)} times as long (aim: at most 2).`,
        `The API and its processes hold at most: ${mebibytes(slow.beforeBytes)} before, ` +
          `${mebibytes(slow.greatestBytes)} with ${limits.perKey} readers that take ` +
          `${mebibytes(slowBytesPerSecond)} a second for ${decimal(slow.seconds, 0)} s.`,
        ...complaintsOf(figures.complaints),
      ],
      figures,
    };
  },
};

const ratesTable = (rates: readonly Rate[], circumstance: string) => ({
  head: [circumstance, 'rows/s', 'of the rate of COPY', 'most memory'],
  rows: rates.map(({ format, rowsPerSecond, ratio, greatestBytes }) => [
    format,
    spread(rowsPerSecond, 0),
    spread(ratio, 2),
    mebibytes(greatestBytes),
  ]),
});

const processorTable = (rates: readonly Rate[]) => ({
  head: ['processor seconds', 'COPY', 'writing', 'of COPY', 'API', 'reader'],
  rows: rates.map(({ format, copyCpu, writing, writingRatio, passing, reading }) => [
    format,
    spread(copyCpu, 2),
    spread(writing, 2),
    spread(writingRatio, 2),
    spread(passing, 2),
    spread(reading, 2),
  ]),
});

type Limits = { readonly perKey: number; readonly atOnce: number };

/** The same questions, none of them twice, alone and beside as many exports as may run. */
async function measureFlood(service: RunningService, rounds: number, limits: Limits) {
  const other = service.shops.at(-1) as BenchmarkShop;
  const { organizationId } = service.shops[0] as BenchmarkShop;
  const exporting: BenchmarkShop[] = [];
  while (exporting.length * limits.perKey < limits.atOnce) {
    const key = { organizationId, name: 'Export', scopes: ['read'] as const, expiresAt: null };
    const { secret } = await createApiKey(service.database.pool, key);
    exporting.push({ organizationId, secret });
  }
  let asked = 0;
  const ask = async (): Promise<number> => {
    asked += 1;
    const startedAt = performance.now();
    const url = `/v1/purchases/stats?group_by=utm_campaign&max_value_in_cents=${10 ** 9 + asked}`;
    const answer = await service.get(url, other);
    await answer.arrayBuffer();
    if (answer.status !== 200) throw new Error(`statistics were answered ${answer.status}`);
    return performance.now() - startedAt;
  };
  const medianOf = async (): Promise<number> => {
    const times: number[] = [];
    for (let question = 0; question < questionsEach; question += 1) times.push(await ask());
    return summarize(times).median;
  };
  const besideExports = async (): Promise<number> => {
    let isOver = false;
    const flood = Array.from({ length: limits.atOnce }, async (_, index) => {
      const shop = exporting[Math.floor(index / limits.perKey)] as BenchmarkShop;
      while (!isOver) await readExport(service, shop, 'csv');
    });
    const measured = sleep(500)
      .then(medianOf)
      .finally(() => {
        isOver = true;
      });
    const [median] = await Promise.all([measured, ...flood]);
    return median;
  };
  const alone: number[] = [];
  const flooded: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    alone.push(await medianOf());
    flooded.push(await besideExports());
  }
  return {
    aloneMs: summarize(alone),
    floodedMs: summarize(flooded),
    ratio: summarize(pairedRatios(flooded, alone)),
  };
}

async function measureSlowReaders(
  scope: Scope,
  service: RunningService,
  forMs: number,
  readers: number,
) {
  const residentBytes = () => residentBytesOfFamily(service.api.pid);
  const beforeBytes = residentBytes();
  const startedAt = performance.now();
  const isOver = () => performance.now() - startedAt > forMs || scope.signal.aborted;
  const readSlowly = async () => {
    const answer = await service.get(
      '/v1/purchases/export?format=ndjson',
      service.shops[0] as BenchmarkShop,
    );
    if (answer.status !== 200) throw new Error(`an export was answered ${answer.status}`);
    const reader = answer.body?.getReader();
    for (let bytes = 0; reader !== undefined && !isOver(); ) {
      const { value, done } = await reader.read();
      if (done) break;
      bytes += value.length;
      const due = startedAt + (1000 * bytes) / slowBytesPerSecond;
      if (due > performance.now()) await sleep(due - performance.now());
    }
    await reader?.cancel();
  };
  let greatestBytes = beforeBytes;
  const watch = async () => {
    while (!isOver()) {
      greatestBytes = Math.max(greatestBytes, residentBytes());
      await sleep(100);
    }
  };
  await Promise.all([watch(), ...Array.from({ length: readers }, readSlowly)]);
  return { beforeBytes, greatestBytes, seconds: (performance.now() - startedAt) / 1000 };
}
