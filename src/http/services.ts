import type { PurchaseEngine } from '../domain/purchase-engine.ts';
import type { Database } from '../postgres/pool.ts';

/** What resources are served from. Passed explicitly to every one of them. */
export type Services = {
  /** The operational Postgres. */
  readonly database: Database;
  readonly purchases: PurchaseEngine;
  /** Where the application that people use is; `html_url` begins with it. No slash at its end. */
  readonly publicAppUrl: string;
};
