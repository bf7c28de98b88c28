import type { ChangeFeed } from '../domain/purchase-changes.ts';
import type { ExportSource, PurchaseEngine } from '../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../domain/purchase-query.ts';
import type { Database } from '../postgres/connection/pool.ts';
import type { ExportFormatName } from './formats/negotiation.ts';

/** Writes the matching purchases of a source in a format. The generator starts and ends all work. */
export type ExportWriter = (
  source: ExportSource,
  filters: PurchaseFilters,
  format: ExportFormatName,
  signal: AbortSignal,
) => AsyncGenerator<Uint8Array, void>;

/** The dependencies of resources. */
export type Services = {
  /** The operational Postgres. */
  readonly database: Database;
  readonly purchases: PurchaseEngine;
  readonly changes: ChangeFeed;
  readonly writeExport: ExportWriter;
  /** The base of `html_url`, without a slash at its end. */
  readonly publicAppUrl: string;
};
