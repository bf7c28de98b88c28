import { openSync, writeSync } from 'node:fs';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type { PurchaseFilters } from '../domain/purchase-query.ts';
import { createInstance } from '../duckdb/connection.ts';
import { csv, csvForExcel } from '../http/formats/csv.ts';
import { ndjson } from '../http/formats/ndjson.ts';
import type { ExportFormatName } from '../http/formats/negotiation.ts';
import { purchaseTable } from '../resources/purchase-table.ts';
import { readColumnarPurchases } from './columnar-purchases.ts';
import { copyCsvAsParquet, copyLines, copyParquet } from './copy.ts';
import { type ExportJob, fileDescriptor } from './job.ts';
import { withStandardInput } from './pipe.ts';
import { writtenIn } from './written-batches.ts';

const catalog = 'exported';

/** Writes what is ordered to the standard output. */
export async function runJob({ format, source, ...options }: ExportJob): Promise<void> {
  const instance = await createInstance(options);
  const connection = await instance.connect();
  // The joins are few rows each to the purchases, and their order is the one that is written.
  await connection.run(`set disabled_optimizers = 'join_order,build_side_probe_side'`);
  // Otherwise rows would wait for those before them, in memory.
  await connection.run('set preserve_insertion_order = false');
  await connection.run(`set timezone = 'UTC'`);
  if (source === 'csv') {
    await withStandardInput(options.spillDirectory, (path) => copyCsvAsParquet(connection, path));
  } else {
    await connection.run(`attach '/dev/fd/${fileDescriptor}' as ${catalog} (read_only)`);
    await writers[format](connection, source.filters, instance);
  }
  connection.closeSync();
  instance.closeSync();
}

type Writer = (
  connection: DuckDBConnection,
  filters: PurchaseFilters,
  instance: DuckDBInstance,
) => Promise<void>;

const linesOf =
  (format: typeof csv): Writer =>
  (connection, filters) =>
    copyLines(connection, catalog, filters, format, () =>
      write(Buffer.from(format.begin(purchaseTable))),
    );

const writers: Readonly<Record<ExportFormatName, Writer>> = {
  csv: linesOf(csv),
  csv_excel: linesOf(csvForExcel),
  ndjson: linesOf(ndjson),
  parquet: (connection, filters) => copyParquet(connection, catalog, filters),
  arrow: async (connection, filters, instance) => {
    // Takes longer to load than everything else together.
    const { arrow } = await import('../http/formats/arrow.ts');
    // While what one has read is written, the other reads.
    const connections = [connection, await instance.connect()];
    for await (const part of writtenIn(
      arrow,
      readColumnarPurchases(connections, catalog, filters),
    )) {
      write(part);
    }
  },
};

/** Waits for the reader. */
function write(bytes: Uint8Array): void {
  // Node may have made its own one such that it does not wait.
  output ??= openSync('/dev/stdout', 'w');
  for (let start = 0; start < bytes.length; ) start += writeSync(output, bytes, start);
}
let output: number | undefined;
