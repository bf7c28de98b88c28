import { createWriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { DuckDBConnection } from '@duckdb/node-api';
import type { StoreFiles } from '../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../domain/purchase-query.ts';
import { createInstance } from '../duckdb/connection.ts';
import type { Shortcuts } from '../duckdb/shortcuts.ts';
import { streamPurchases } from '../engines/duckdb/list/list.ts';
import { createGeneration } from '../engines/duckdb/serving/generation.ts';
import { csv, csvForExcel, type SpreadsheetOptions } from '../http/formats/csv.ts';
import { type Format, writeBatches } from '../http/formats/format.ts';
import { ndjson } from '../http/formats/ndjson.ts';
import type { ExportFormatName } from '../http/formats/negotiation.ts';
import type { Table } from '../http/formats/table.ts';
import { createDelta } from '../purchase-store/delta/delta.ts';
import { createBaseLayout } from '../purchase-store/format/layout.ts';
import { readRange } from '../purchase-store/format/log.ts';
import { purchaseBatches, purchaseTable } from '../resources/purchases/purchase-table.ts';
import { copyCsvAsParquet, copyLines, copyParquet } from './copy.ts';
import { makePipe } from './pipe.ts';
import { matchingPurchases } from './projection.ts';
import { registerFunctions } from './sql-functions.ts';

/** What an export process writes to its standard output. */
export type ExportJob = {
  readonly format: ExportFormatName;
  readonly spreadsheet?: SpreadsheetOptions | undefined;
  /** Matching purchases of the log at descriptor 4 and the base at 5, or the CSV of the standard input. */
  readonly source: FilesSource | CsvSource;
  readonly threads: number;
  /** As DuckDB writes sizes. */
  readonly memoryLimit: string;
  readonly spillDirectory: string;
  readonly shortcuts: Shortcuts;
};

type FilesSource = Pick<StoreFiles, 'part' | 'asOf'> & {
  readonly filters: PurchaseFilters;
  readonly hasBase: boolean;
};

/** Becomes Parquet. */
type CsvSource = { readonly csv: Table };

const catalogs = { base: 'base', delta: 'delta' };

export async function runJob({
  format,
  spreadsheet,
  source,
  shortcuts,
  ...options
}: ExportJob): Promise<void> {
  const lineFormats = { csv, csv_excel: csvForExcel(spreadsheet), ndjson };
  const instance = await createInstance(options, async (preparing) => {
    // The order of a log is that of its lines, so it is read before the settings below.
    if (!('csv' in source)) await openFiles(preparing, source, shortcuts);
    // Dictionaries are joined to the purchases, never the other way round.
    await preparing.run(`set global disabled_optimizers = 'join_order,build_side_probe_side'`);
    // Rows would wait in memory for the rows before them.
    await preparing.run('set global preserve_insertion_order = false');
    await preparing.run(`set global timezone = 'UTC'`);
  });
  const connection = await instance.connect();
  registerFunctions(connection, spreadsheet?.timezone);
  const convertCsvToParquet = async (
    lines: AsyncIterable<Uint8Array>,
    table: Table,
    on: DuckDBConnection,
  ) => {
    // The standard input of a child of Node is a socket, which DuckDB cannot open.
    await mkdir(options.spillDirectory, { recursive: true });
    const pipe = join(options.spillDirectory, 'csv');
    await makePipe(pipe);
    const inputPipeline = pipeline(lines, createWriteStream(pipe));
    await Promise.all([inputPipeline, copyCsvAsParquet(on, pipe, table)]);
  };
  if ('csv' in source) return convertCsvToParquet(process.stdin, source.csv, connection);

  const purchases = await matchingPurchases(connection, catalogs, source.filters, shortcuts);
  if (format !== 'arrow' && !purchases.hasLongLabels) {
    if (format === 'parquet') return copyParquet(connection, purchases);
    return copyLines(connection, purchases, lineFormats[format]);
  }
  const writeRows = async (of: Format) => {
    const generation = await createGeneration(connection, catalogs, undefined, shortcuts);
    const labelConnection = await instance.connect();
    const all = streamPurchases(connection, labelConnection, generation, source.filters);
    return writeBatches(of, purchaseTable, purchaseBatches(all));
  };
  if (format === 'parquet')
    return convertCsvToParquet(await writeRows(csv), purchaseTable, await instance.connect());
  // Loading apache-arrow takes as long as loading all other modules.
  const { arrow } = await import('../http/formats/arrow.ts');
  for await (const part of await writeRows(format === 'arrow' ? arrow : lineFormats[format])) {
    await new Promise<void>((resolve, reject) => {
      process.stdout.write(part, (error) => (error ? reject(error) : resolve()));
    });
  }
}

async function openFiles(
  connection: DuckDBConnection,
  { hasBase, part, asOf }: FilesSource,
  shortcuts: Shortcuts,
): Promise<void> {
  if (hasBase) await connection.run(`attach '/dev/fd/5' as ${catalogs.base} (read_only)`);
  else {
    await connection.run(`attach ':memory:' as ${catalogs.base}`);
    await connection.run(createBaseLayout(catalogs.base));
  }
  const read = () => readRange(4, 0, part.bytes);
  const replayed = { path: '/dev/fd/4', ...part, read };
  await createDelta(connection, catalogs, replayed, asOf, shortcuts);
}
