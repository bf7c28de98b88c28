import type { Purchase } from '../domain/purchase.ts';
import { formats } from '../http/formats/negotiation.ts';
import type { TableBatch } from '../http/formats/table.ts';
import type { ExportWriter } from '../http/services.ts';
import { purchasesAsRows } from '../resources/purchase-table.ts';
import type { ExportProcesses } from './export-process.ts';
import { writtenIn } from './written-batches.ts';

/**
 * Files are written by processes of their own: DuckDB composes what it is to write, and
 * what that takes keeps nobody waiting. What comes in batches is written here, but Parquet.
 */
export function createExportWriter({ writeFile, writeParquet }: ExportProcesses): ExportWriter {
  return (source, filters, format, signal) => {
    if ('descriptor' in source) return writeFile(source.descriptor, filters, format, signal);
    const batches = asRows(source.purchases);
    return format === 'parquet'
      ? writeParquet(writtenIn(formats.csv, batches), signal)
      : writtenIn(formats[format], batches);
  };
}

async function* asRows(batches: AsyncIterable<readonly Purchase[]>): AsyncGenerator<TableBatch> {
  for await (const purchases of batches) yield purchasesAsRows(purchases);
}
