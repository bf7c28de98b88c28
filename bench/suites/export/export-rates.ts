import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { purchaseColumns, purchaseLabels } from '../../../src/domain/purchase.ts';
import { type ExportFormatName, exportFormatNames } from '../../../src/http/formats/negotiation.ts';
import { labelKey, labelTable } from '../../../src/purchase-store/layout.ts';
import {
  organizationDirectory,
  readPublished,
} from '../../../src/purchase-store/published-generation.ts';
import { readUsage, residentBytesOfFamily } from '../../measure/process-usage.ts';
import { pairedRatios, type Summary, summarize } from '../../measure/statistics.ts';
import type { Scope } from '../../runner/scope.ts';
import type { RunningService } from '../../setup/running-service.ts';
import { type BenchmarkShop, keyOf } from '../../setup/shops.ts';

const measured = exportFormatNames.filter((name) => name !== 'csv_excel');

const watchingIntervalMs = 100;
const lastChunk = Buffer.from('0\r\n\r\n');

/**
 * Reads all there is, into the same memory again and again: a client that keeps what it
 * reads is busier with that than the API is with writing it.
 */
export async function readExport(
  service: RunningService,
  shop: BenchmarkShop,
  format: ExportFormatName,
): Promise<void> {
  const { hostname, port } = new URL(service.api.url);
  let head = '';
  let tail = Buffer.alloc(0);
  const noteRead = (count: number, memory: Uint8Array): boolean => {
    const part = Buffer.from(memory.buffer, memory.byteOffset, count);
    if (head === '') head = part.toString('latin1', 0, 12);
    tail = Buffer.concat([tail, part.subarray(-lastChunk.length)]).subarray(-lastChunk.length);
    return true;
  };
  const onread = { buffer: Buffer.alloc(256 * 1024), callback: noteRead };
  const socket = connect({ host: hostname, port: Number(port), onread });
  const headers = { ...keyOf(shop), host: hostname, connection: 'close' };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`GET /v1/purchases/export?format=${format} HTTP/1.1\r\n${lines.join('')}\r\n`);
  await once(socket.resume(), 'close');
  if (head !== 'HTTP/1.1 200') throw new Error(`an export was answered ${head}`);
  if (!tail.equals(lastChunk)) throw new Error('an export broke off');
}

export type Rate = {
  readonly format: ExportFormatName;
  readonly rowsPerSecond: Summary;
  /** Of the rate of COPY. */
  readonly ratio: Summary;
  readonly greatestBytes: number;
  /** Processor seconds of COPY, of the process that writes the export, of the API and of the reader. */
  readonly copyCpu: Summary;
  readonly writing: Summary;
  readonly writingRatio: Summary;
  readonly passing: Summary;
  readonly reading: Summary;
};

const copied: Readonly<Record<string, string>> = {
  csv: 'csv',
  ndjson: 'json',
  arrow: 'csv',
  parquet: 'parquet',
};

/**
 * In the same round as DuckDB's own COPY of the same rows, which may take as many threads as
 * the API gives to an export.
 */
export async function measureRates(
  scope: Scope,
  service: RunningService,
  { rounds, threads }: { readonly rounds: number; readonly threads: number },
): Promise<Rate[]> {
  const shop = service.shops[0] as BenchmarkShop;
  const directory = organizationDirectory(service.dataDirectory, shop.organizationId);
  const published = readPublished(directory);
  if (published === null) throw new Error('nothing is published');
  const instance = await DuckDBInstance.create(':memory:', { threads: String(threads) });
  scope.afterwards(async () => instance.closeSync());
  const connection = await instance.connect();
  await connection.run(`attach '${join(directory, published.file)}' as file (read_only)`);
  const shown = purchaseColumns.map(({ name, kind }) =>
    kind === 'label' ? `of_${name}.value as ${name}` : `purchase.${name}`,
  );
  const joins = purchaseLabels.map(
    (label) =>
      `left join file.${labelTable(label)} as of_${label} on of_${label}.key = purchase.${labelKey(label)}`,
  );
  const rows = `select ${shown.join(', ')} from file.purchase ${joins.join(' ')}`;
  const copies = new Map(measured.map((format) => [format, [] as Taken[]]));
  const exported = new Map(measured.map((format) => [format, [] as Taken[]]));
  const greatest = new Map<ExportFormatName, number>();
  const { pid } = service.api;
  // What an instance has read once it reads no more: the first COPY would be the slowest.
  await connection.run(`copy (${rows}) to '/dev/null' (format csv)`);
  for (let round = 0; round < rounds; round += 1) {
    for (const format of measured) {
      scope.signal.throwIfAborted();
      const copy = `copy (${rows}) to '/dev/null' (format ${copied[format]})`;
      copies.get(format)?.push(await take(pid, () => connection.run(copy)));
      const watching = setInterval(() => {
        const bytes = residentBytesOfFamily(pid);
        greatest.set(format, Math.max(greatest.get(format) ?? 0, bytes));
      }, watchingIntervalMs);
      const taken = take(pid, () => readExport(service, shop, format));
      exported.get(format)?.push(await taken.finally(() => clearInterval(watching)));
    }
  }
  connection.closeSync();
  return measured.map((format) => {
    const copy = byKind(copies.get(format) ?? []);
    const { seconds, own, api, children } = byKind(exported.get(format) ?? []);
    return {
      format,
      rowsPerSecond: summarize(seconds.map((taken) => published.purchases / taken)),
      ratio: summarize(pairedRatios(copy.seconds, seconds)),
      greatestBytes: greatest.get(format) ?? Number.NaN,
      copyCpu: summarize(copy.own),
      writing: summarize(children),
      writingRatio: summarize(pairedRatios(children, copy.own)),
      passing: summarize(api),
      reading: summarize(own),
    };
  });
}

/** Seconds, and processor seconds of this process, of the API and of its processes that ended. */
type Taken = { readonly [Kind in 'seconds' | 'own' | 'api' | 'children']: number };

async function take(apiPid: number, work: () => Promise<unknown>): Promise<Taken> {
  const api = readUsage(apiPid);
  const own = process.cpuUsage();
  const startedAt = performance.now();
  await work();
  const seconds = (performance.now() - startedAt) / 1000;
  const { user, system } = process.cpuUsage(own);
  const after = readUsage(apiPid);
  return {
    seconds,
    own: (user + system) / 1e6,
    api: (after?.cpuSeconds ?? Number.NaN) - (api?.cpuSeconds ?? 0),
    children: (after?.childrenCpuSeconds ?? Number.NaN) - (api?.childrenCpuSeconds ?? 0),
  };
}

const byKind = (taken: readonly Taken[]) => ({
  seconds: taken.map(({ seconds }) => seconds),
  own: taken.map(({ own }) => own),
  api: taken.map(({ api }) => api),
  children: taken.map(({ children }) => children),
});
