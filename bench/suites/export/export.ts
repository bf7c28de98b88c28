import { setTimeout as sleep } from 'node:timers/promises';
import { createApiKey } from '../../../src/postgres/keys/api-keys.ts';
import { readSettings } from '../../../src/settings/settings.ts';
import { residentBytesOfFamily, withPeakOfFamily } from '../../measure/process-usage.ts';
import { inRounds, time } from '../../measure/rounds.ts';
import { median, ratioOf, summarize } from '../../measure/statistics.ts';
import { decimal, describeWarnings, mebibytes, spread, tableOf } from '../../report/tables.ts';
import type { Scope } from '../../runner/scope.ts';
import { defineSuite } from '../../runner/suite.ts';
import { type RunningService, startRunningService } from '../../setup/running-service.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';
import { readExport } from './export-client.ts';
import { measureRates } from './export-rates.ts';

const queriesPerMedian = 40;
const retryMs = 20;
const slowBytesPerSecond = 2 ** 20;

export const exports = defineSuite({
  name: 'export',
  description: 'rates of exports against COPY, their effect on other keys, memory of slow clients',
  isQuick: false,
  defaults: { purchases: 1_000_000, seed: 42, rounds: 3, seconds: 20 },
  async run({ options: { purchases, seed, rounds, seconds }, scope, server }) {
    const service = await startRunningService({ scope, server }, [
      { organizations: 1, purchases, seed },
      { organizations: 1, purchases: Math.min(purchases, 200_000), seed },
    ]);
    const { duckdbThreads: threads, exportsPerKey, exportConcurrency } = readSettings();
    const limits = { perKey: exportsPerKey, atOnce: exportConcurrency };
    const rates = await measureRates(scope, service, { rounds, threads });
    const beside = await measureOtherKey(scope, service, rounds, limits);
    const slow = await measureSlowClients(scope, service, seconds * 1000, limits.perKey);
    const warnings = service.warnings();
    return {
      text: [
        tableOf(rates, {
          [`${threads} threads for DuckDB`]: ({ format }) => format,
          'rows/s': ({ rowsPerSecond }) => spread(rowsPerSecond, 0),
          'of the rate of COPY': ({ ratio }) => spread(ratio, 2),
          'maximal memory': ({ maxBytes }) => mebibytes(maxBytes),
        }),
        'COPY writes the same rows, their labels and plain ids, to /dev/null: as CSV, JSON or Parquet; ' +
          'beside Arrow as CSV. Memory is that of the API and its export processes together.',
        `Statistics of another key: ${spread(beside.aloneMs)} ms alone, ${spread(beside.besideMs)} ms beside ` +
          `${limits.atOnce} exports: ${spread(beside.ratio, 2)} times as long (target: at most 2).`,
        `The API and its processes hold at most: ${mebibytes(slow.beforeBytes)} before, ` +
          `${mebibytes(slow.maxBytes)} with ${limits.perKey} clients that read ` +
          `${mebibytes(slowBytesPerSecond)} a second for ${decimal(slow.seconds, 0)} s.`,
        ...describeWarnings(warnings),
      ],
      figures: { threads, limits, rates, beside, slow, warnings },
    };
  },
});

type Limits = { readonly perKey: number; readonly atOnce: number };

/** Measures another key's uncached statistics, alone and beside as many exports as may run. */
async function measureOtherKey(
  scope: Scope,
  service: RunningService,
  rounds: number,
  limits: Limits,
) {
  const other = service.shops.at(-1) as BenchmarkShop;
  const { organizationId } = service.shops[0] as BenchmarkShop;
  const exporting: BenchmarkShop[] = [];
  while (exporting.length * limits.perKey < limits.atOnce) {
    const key = { organizationId, name: 'Export', scopes: ['read'] as const, expiresAt: null };
    const { secret } = await createApiKey(service.database.pool, key);
    exporting.push({ organizationId, secret });
  }
  let value = 10 ** 9;
  const medianMs = async (): Promise<number> => {
    const times: number[] = [];
    for (let query = 0; query < queriesPerMedian; query += 1) {
      value += 1;
      const url = `/v1/purchases/stats?group_by=utm_campaign&max_value_in_cents=${value}`;
      times.push((await time(() => service.get(url, other))).wall);
    }
    return median(times);
  };
  const medianBesideExports = async (): Promise<number> => {
    let isOver = false;
    const exports = Array.from({ length: limits.atOnce }, async (_, index) => {
      const shop = exporting[Math.floor(index / limits.perKey)] as BenchmarkShop;
      while (!isOver) {
        const isRead = await readExport(service, shop, 'csv');
        if (!isRead) await sleep(retryMs);
      }
    });
    const measured = sleep(500)
      .then(medianMs)
      .finally(() => {
        isOver = true;
      });
    const [median] = await Promise.all([measured, ...exports]);
    return median;
  };
  const tasks = { alone: medianMs, beside: medianBesideExports };
  const { alone, beside } = await inRounds(tasks, { rounds, warmUps: 0, signal: scope.signal });
  return {
    aloneMs: summarize(alone),
    besideMs: summarize(beside),
    ratio: ratioOf(beside, alone, (milliseconds) => milliseconds),
  };
}

async function measureSlowClients(
  scope: Scope,
  { api, open, shops }: RunningService,
  forMs: number,
  clients: number,
) {
  const beforeBytes = residentBytesOfFamily(api.pid);
  const startedAt = performance.now();
  const isOver = () => performance.now() - startedAt > forMs || scope.signal.aborted;
  const readSlowly = async () => {
    const response = await open('/v1/purchases/export?format=ndjson', shops[0] as BenchmarkShop);
    let bytes = 0;
    // Leaving the loop closes the connection.
    for await (const chunk of response) {
      bytes += chunk.length;
      const dueAt = startedAt + (1000 * bytes) / slowBytesPerSecond;
      if (dueAt > performance.now()) await sleep(dueAt - performance.now());
      if (isOver()) break;
    }
  };
  const { maxBytes } = await withPeakOfFamily(api.pid, () =>
    Promise.all(Array.from({ length: clients }, readSlowly)),
  );
  return { beforeBytes, maxBytes, seconds: (performance.now() - startedAt) / 1000 };
}
