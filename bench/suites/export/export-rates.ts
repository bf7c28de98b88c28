import { DuckDBInstance } from '@duckdb/node-api';
import { purchaseColumns, purchaseLabels } from '../../../src/domain/purchase.ts';
import { labelKey, labelTable } from '../../../src/purchase-store/format/layout.ts';
import { withPeakOfFamily } from '../../measure/process-usage.ts';
import { inRounds, type Time, timed, wall } from '../../measure/rounds.ts';
import { ratioOf, type Summary, summaryOf } from '../../measure/statistics.ts';
import type { Scope } from '../../runner/scope.ts';
import { attachBase } from '../../setup/attached-base.ts';
import type { RunningService } from '../../setup/running-service.ts';
import type { BenchmarkShop } from '../../setup/shops.ts';
import { readExport } from './export-client.ts';

/** The exported formats, and the format of DuckDB's COPY that they are compared with. */
const formats = { csv: 'csv', ndjson: 'json', arrow: 'csv', parquet: 'parquet' } as const;
type Format = keyof typeof formats;

type Rate = {
  readonly format: Format;
  readonly rowsPerSecond: Summary;
  /** The rate, divided by that of COPY. */
  readonly ratio: Summary;
  /** The maximal memory of the API and its export processes. */
  readonly maxBytes: number;
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
  const copy = (copyFormat: string) =>
    timed(() => connection.run(`copy (${rows}) to '/dev/null' (format ${copyFormat})`));
  const readFormat = (format: Format) => async () => {
    const read = timed(async () => {
      if (!(await readExport(service, shop, format))) throw new Error('an export was refused');
    });
    const { result, maxBytes } = await withPeakOfFamily(service.api.pid, read);
    return { ...result, maxBytes };
  };
  // Not measured: the first COPY reads the file.
  await copy('csv')();
  const limits = { rounds, warmUps: 0, signal: scope.signal };
  const rates: Rate[] = [];
  for (const [format, copyFormat] of Object.entries(formats) as [Format, string][]) {
    const tasks = { copies: copy(copyFormat), exports: readFormat(format) };
    const { copies, exports } = await inRounds(tasks, limits);
    rates.push({
      format,
      rowsPerSecond: summaryOf(exports, ({ wall }) => (1000 * purchases) / wall),
      ratio: ratioOf<Time>(copies, exports, wall),
      maxBytes: Math.max(...exports.map(({ maxBytes }) => maxBytes)),
    });
  }
  connection.closeSync();
  return rates;
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
