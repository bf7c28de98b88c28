import type { ExportSource, PurchaseEngine } from '../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../domain/purchase-query.ts';
import type { Database } from '../postgres/pool.ts';
import type { ExportFormatName } from './formats/negotiation.ts';

/**
 * Writes, in a format, the purchases of a source that the filters leave. Nothing is begun
 * before the first part is asked for, and nothing goes on after the return.
 */
export type ExportWriter = (
  source: ExportSource,
  filters: PurchaseFilters,
  format: ExportFormatName,
  signal: AbortSignal,
) => AsyncGenerator<Uint8Array, void>;

/** What resources are served from. Passed explicitly to every one of them. */
export type Services = {
  /** The operational Postgres. */
  readonly database: Database;
  readonly purchases: PurchaseEngine;
  /** Writes the purchases that an export of theirs is read from. */
  readonly writeExport: ExportWriter;
  /** Where the application that people use is; `html_url` begins with it. No slash at its end. */
  readonly publicAppUrl: string;
};
