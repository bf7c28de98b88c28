import { DuckDBInstance } from '@duckdb/node-api';
import { purchaseColumns, purchaseLabels } from '../../../src/domain/purchase.ts';
import { labelKey, labelTable } from '../../../src/purchase-store/layout.ts';
import { readUsage, residentBytesOfFamily } from '../../measure/process-usage.ts';
import { inRounds } from '../../measure/rounds.ts';
import { ratioOf, type Summary, summaryOf } from '../../measure/statistics.ts';
import type { Scope } from '../../runner/scope.ts';
import { attachBase } from '../../setup/attached-base.ts';
import type { RunningService } from '../../setup/running-service.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';
import { readExport } from './export-client.ts';

/** The exported formats, and the format of DuckDB's COPY that they are compared with. */
const formats = { csv: 'csv', ndjson: 'json', arrow: 'csv', parquet: 'parquet' } as const;
type Format = keyof typeof formats;

const memoryIntervalMs = 100;

export type Rate = {
  readonly format: Format;
  readonly rowsPerSecond: Summary;
  /** The rate, divided by that of COPY. */
  readonly ratio: Summary;
  /** The maximal memory of the API and its export processes. */
  readonly maxBytes: number;
  /** Processor seconds of COPY, of the export process, of the API and of the client. */
  readonly copyCpu: Summary;
  readonly exportCpu: Summary;
  readonly exportCpuRatio: Summary;
  readonly apiCpu: Summary;
  readonly clientCpu: Summary;
};

/** Compares exports with DuckDB's COPY of the same rows, which has as many threads. */
export async function measureRates(
  scope: Scope,
  service: RunningService,
  { rounds, threads }: { readonly rounds: number; readonly threads: number },
): Promise<Rate[]> {
  const shop = service.shops[0] as BenchmarkShop;
  const instance = await DuckDBInstance.create(':memory:', { threads: String(threads) });
  scope.afterwards(async () => instance.closeSync());
  const connection = await instance.connect();
  // Nothing has changed since the load.
  const { dataDirectory } = service;
  const { organizationId } = shop;
  const purchases = await attachBase(
    instance,
    connection,
    { dataDirectory, organizationId },
    'file',
  );
  const { pid } = service.api;
  const copy = (copyFormat: string) => async () => {
    const statement = `copy (${rows}) to '/dev/null' (format ${copyFormat})`;
    const measured = await measure(pid, () => connection.run(statement));
    return { ...measured, writerCpu: measured.ownCpu };
  };
  const readFormat = (format: Format) => async () => {
    const measured = await measure(pid, () => readExport(service, shop, format));
    return { ...measured, writerCpu: measured.childrenCpu };
  };
  // Not measured: the first COPY reads the file.
  await copy('csv')();
  const names = Object.keys(formats) as Format[];
  const limits = { rounds, warmUps: 0, signal: scope.signal };
  const tasks = names.flatMap((format) => [copy(formats[format]), readFormat(format)]);
  const measured = await inRounds(tasks, limits);
  connection.closeSync();
  return names.map((format, index) => {
    const [copies = [], exports = []] = measured.slice(2 * index);
    return {
      format,
      rowsPerSecond: summaryOf(exports, ({ seconds }) => purchases / seconds),
      ratio: ratioOf(copies, exports, ({ seconds }) => seconds),
      maxBytes: Math.max(...exports.map(({ maxBytes }) => maxBytes)),
      copyCpu: summaryOf(copies, ({ writerCpu }) => writerCpu),
      exportCpu: summaryOf(exports, ({ writerCpu }) => writerCpu),
      exportCpuRatio: ratioOf(exports, copies, ({ writerCpu }) => writerCpu),
      apiCpu: summaryOf(exports, ({ apiCpu }) => apiCpu),
      clientCpu: summaryOf(exports, ({ ownCpu }) => ownCpu),
    };
  });
}

/** All purchases of the attached file, with labels instead of their keys. */
const selected = purchaseColumns.map(({ name, kind }) =>
  kind === 'label' ? `of_${name}.value as ${name}` : `purchase.${name}`,
);
const joins = purchaseLabels.map(
  (label) =>
    `left join file.${labelTable(label)} as of_${label} on of_${label}.key = purchase.${labelKey(label)}`,
);
const rows = `select ${selected.join(', ')} from file.purchase ${joins.join(' ')}`;

type Measured = {
  readonly seconds: number;
  /** Processor seconds of this process, of the API, and of its processes that ended. */
  readonly ownCpu: number;
  readonly apiCpu: number;
  readonly childrenCpu: number;
  readonly maxBytes: number;
};
async function measure(apiPid: number, work: () => Promise<unknown>): Promise<Measured> {
  let maxBytes = residentBytesOfFamily(apiPid);
  const sampling = setInterval(() => {
    maxBytes = Math.max(maxBytes, residentBytesOfFamily(apiPid));
  }, memoryIntervalMs);
  const api = readUsage(apiPid);
  const own = process.cpuUsage();
  const startedAt = performance.now();
  await work().finally(() => clearInterval(sampling));
  const seconds = (performance.now() - startedAt) / 1000;
  const { user, system } = process.cpuUsage(own);
  const after = readUsage(apiPid);
  return {
    seconds,
    ownCpu: (user + system) / 1e6,
    apiCpu: (after?.cpuSeconds ?? Number.NaN) - (api?.cpuSeconds ?? 0),
    childrenCpu: (after?.childrenCpuSeconds ?? Number.NaN) - (api?.childrenCpuSeconds ?? 0),
    maxBytes,
  };
}
