import type { PurchaseFilters } from '../domain/purchase-query.ts';
import type { ExportFormatName } from '../http/formats/negotiation.ts';

/** What an export process is told to write to its standard output. */
export type ExportJob = {
  readonly format: ExportFormatName;
  /** What the file at `fileDescriptor` holds and the filters leave; or the CSV of its standard input. */
  readonly source: { readonly filters: PurchaseFilters } | 'csv';
  readonly threads: number;
  /** As DuckDB writes sizes. */
  readonly memoryLimit: string;
  readonly spillDirectory: string;
};

/** At which an export process finds its file open. */
export const fileDescriptor = 3;

/** What an export process says before it ends with another code than 0. */
export type ExportFailure = { readonly failure: string };
