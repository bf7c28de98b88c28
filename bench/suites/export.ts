import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { DuckDBInstance } from '@duckdb/node-api';
import { purchaseColumns, purchaseLabels } from '../../src/domain/purchase.ts';
import { joinLabels } from '../../src/engines/duckdb/export.ts';
import {
  organizationDirectory,
  readPublished,
} from '../../src/engines/duckdb/published-generation.ts';
import { type ExportFormatName, exportFormatNames } from '../../src/http/formats/negotiation.ts';
import { createApiKey } from '../../src/postgres/api-keys.ts';
import { pairedRatios, type Summary, summarize } from '../measurements.ts';
import { residentBytesOfFamily } from '../process-usage.ts';
import { complaintsOf, decimal, mebibytes, spread } from '../report.ts';
import { type RunningService, startRunningService } from '../running-service.ts';
import type { Scope } from '../scope.ts';
import { type BenchmarkShop, keyOf } from '../shops.ts';
import type { Suite } from '../suite.ts';

const measured = exportFormatNames.filter((name) => name !== 'csv_excel');
/** As many as the API runs at the same time, by default. */
const exportsAtOnce = 4;
const exportsPerKey = 2;
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
    const rates = await measureRates(scope, service, rounds);
    const flood = await measureFlood(service, rounds);
    const slow = await measureSlowReader(scope, service, seconds * 1000);
    const figures = { rates, flood, slow, complaints: service.complaints() };
    return {
      options: { purchases, seed, rounds, seconds },
      text: [
        {
          head: ['export', 'rows/s', 'of the rate of COPY', 'most memory'],
          rows: rates.map(({ format, rowsPerSecond, ratio, greatestBytes }) => [
            format,
            spread(rowsPerSecond, 0),
            spread(ratio, 2),
            mebibytes(greatestBytes),
          ]),
        },
        'COPY writes the same rows, their labels and plain ids, to /dev/null: as CSV, JSON or Parquet; ' +
          'beside Arrow as CSV. Memory is what the API and the processes of its exports hold together.',
        `Statistics of another key: ${spread(flood.aloneMs)} ms alone, ${spread(flood.floodedMs)} ms beside ` +
          `${exportsAtOnce} exports: ${spread(flood.ratio, 2)} times as long (aim: at most 2).`,
        `The API and its processes hold at most: ${mebibytes(slow.beforeBytes)} before, ` +
          `${mebibytes(slow.greatestBytes)} with ${exportsPerKey} readers that take ` +
          `${mebibytes(slowBytesPerSecond)} a second for ${decimal(slow.seconds, 0)} s.`,
        ...complaintsOf(figures.complaints),
      ],
      figures,
    };
  },
};

/** Reads all there is; gives the bytes. */
async function readExport(
  service: RunningService,
  shop: BenchmarkShop,
  format: ExportFormatName,
): Promise<number> {
  const url = `${service.api.url}/v1/purchases/export?format=${format}`;
  // With `fetch` the reader would be the slower one.
  const [answer] = (await once(get(url, { headers: keyOf(shop) }), 'response')) as [
    IncomingMessage,
  ];
  if (answer.statusCode !== 200) throw new Error(`an export was answered ${answer.statusCode}`);
  let bytes = 0;
  answer.on('data', (part: Buffer) => {
    bytes += part.length;
  });
  await finished(answer);
  return bytes;
}

type Rate = {
  readonly format: ExportFormatName;
  readonly rowsPerSecond: Summary;
  readonly ratio: Summary;
  readonly greatestBytes: number;
};

const copied: Readonly<Record<string, string>> = {
  csv: 'csv',
  ndjson: 'json',
  arrow: 'csv',
  parquet: 'parquet',
};

/** In the same round as DuckDB's own COPY of the same rows. */
async function measureRates(
  scope: Scope,
  service: RunningService,
  rounds: number,
): Promise<Rate[]> {
  const shop = service.shops[0] as BenchmarkShop;
  const directory = organizationDirectory(service.dataDirectory, shop.organizationId);
  const published = readPublished(directory);
  if (published === null) throw new Error('nothing is published');
  const instance = await DuckDBInstance.create(':memory:');
  scope.afterwards(async () => instance.closeSync());
  const connection = await instance.connect();
  await connection.run(`attach '${join(directory, published.file)}' as file (read_only)`);
  const shown = purchaseColumns.map(({ name, kind }) =>
    kind === 'label' ? `of_${name}.value as ${name}` : `purchase.${name}`,
  );
  const rows = `select ${shown.join(', ')} from file.purchase ${joinLabels('file', purchaseLabels)}`;
  const seconds = new Map<string, number[]>();
  const greatest = new Map<string, number>();
  const time = async (name: string, work: () => Promise<unknown>) => {
    const startedAt = performance.now();
    await work();
    const taken = (performance.now() - startedAt) / 1000;
    seconds.set(name, [...(seconds.get(name) ?? []), taken]);
  };
  for (let round = 0; round < rounds; round += 1) {
    for (const format of measured) {
      scope.signal.throwIfAborted();
      await time(`copy ${format}`, () =>
        connection.run(`copy (${rows}) to '/dev/null' (format ${copied[format]})`),
      );
      const watching = setInterval(() => {
        const bytes = residentBytesOfFamily(service.api.pid);
        greatest.set(format, Math.max(greatest.get(format) ?? 0, bytes));
      }, 50);
      await time(format, () => readExport(service, shop, format));
      clearInterval(watching);
    }
  }
  connection.closeSync();
  const times = (name: string) => seconds.get(name) ?? [];
  return measured.map((format) => ({
    format,
    rowsPerSecond: summarize(times(format).map((taken) => published.purchases / taken)),
    ratio: summarize(pairedRatios(times(`copy ${format}`), times(format))),
    greatestBytes: greatest.get(format) ?? Number.NaN,
  }));
}

/** The same questions, none of them twice, alone and beside exports. */
async function measureFlood(service: RunningService, rounds: number) {
  const other = service.shops.at(-1) as BenchmarkShop;
  const { organizationId } = service.shops[0] as BenchmarkShop;
  const exporting: BenchmarkShop[] = [];
  while (exporting.length < exportsAtOnce / exportsPerKey) {
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
  const alone: number[] = [];
  const flooded: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    alone.push(await medianOf());
    let isOver = false;
    const flood = exporting.flatMap((shop) =>
      Array.from({ length: exportsPerKey }, async () => {
        while (!isOver) await readExport(service, shop, 'csv');
      }),
    );
    await sleep(500);
    flooded.push(await medianOf());
    isOver = true;
    await Promise.all(flood);
  }
  return {
    aloneMs: summarize(alone),
    floodedMs: summarize(flooded),
    ratio: summarize(pairedRatios(flooded, alone)),
  };
}

async function measureSlowReader(scope: Scope, service: RunningService, forMs: number) {
  const residentBytes = () => residentBytesOfFamily(service.api.pid);
  const beforeBytes = residentBytes();
  const startedAt = performance.now();
  const isOver = () => performance.now() - startedAt > forMs || scope.signal.aborted;
  const readSlowly = async () => {
    const answer = await service.get(
      '/v1/purchases/export?format=ndjson',
      service.shops[0] as BenchmarkShop,
    );
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
  const reading = Promise.all(Array.from({ length: exportsPerKey }, readSlowly));
  let greatestBytes = beforeBytes;
  while (!isOver()) {
    greatestBytes = Math.max(greatestBytes, residentBytes());
    await sleep(100);
  }
  await reading;
  return { beforeBytes, greatestBytes, seconds: (performance.now() - startedAt) / 1000 };
}
