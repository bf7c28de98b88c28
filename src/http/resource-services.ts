import type { ChangeFeed } from '../domain/purchase-changes.ts';
import type { ExportSource, PurchaseEngine } from '../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../domain/purchase-query.ts';
import type { Database } from '../postgres/connection/pool.ts';
import type { PostgresQueryPool } from '../postgres/connection/query-pool.ts';
import type { SpreadsheetOptions } from './formats/csv.ts';
import type { ExportFormatName } from './formats/negotiation.ts';
import type { Table, TableBatch } from './formats/table.ts';

/** The format of an export, and the options of `csv_excel`. */
export type ExportOutput = {
  readonly format: ExportFormatName;
  readonly spreadsheet?: SpreadsheetOptions | undefined;
};

/** Writes rows in a format. The generator starts and ends all work. */
type Write<Given extends unknown[]> = (
  ...given: [...Given, output: ExportOutput, signal: AbortSignal]
) => AsyncGenerator<Uint8Array, void>;

/** Writes the matching purchases of a source. */
export type ExportWriter = Write<[source: ExportSource, filters: PurchaseFilters]>;

export type ExportWriters = {
  readonly writeExport: ExportWriter;
  /** Writes all batches of a table. */
  readonly writeTable: Write<[rows: TableRows]>;
};

type TableRows = { readonly table: Table; readonly batches: AsyncIterable<TableBatch> };

/** The dependencies of resources. */
export type ResourceServices = ExportWriters & {
  /** Reads the operational Postgres. */
  readonly postgres: Pick<PostgresQueryPool, 'run'>;
  /** The same Postgres. An export occupies a connection until all of its rows are read. */
  readonly exportDatabase: Database;
  readonly purchases: PurchaseEngine;
  readonly changes: ChangeFeed;
  /** The base of `html_url`, without a slash at its end. */
  readonly publicAppUrl: string;
};
